package transfer

import (
	"errors"
	"strings"
)

// yourlsTable returns the columns of an export of YOURLS, which are the columns of the table yourls_url. Times are in
// UTC. An import ignores the address of the person who created a link (ip).
func yourlsTable() *table {
	return &table{columns: []column{
		{name: "keyword", errorMember: "code", required: true, set: setExact(code)},
		{name: "url", required: true, set: setExact(url)},
		{name: "title", set: setText(title)},
		{name: "timestamp", errorMember: "created_at", set: setPlainTime(createdAt)},
		{name: "ip"},
		{name: "clicks", set: setCount(humans)},
	}}
}

// shlinkTable returns the columns of an export of the web client of shlink. If the export of an older release has no
// column shortCode, the code is the path of the short URL.
func shlinkTable() *table {
	return &table{columns: []column{
		{name: "createdAt", errorMember: "created_at", set: setPlainTime(createdAt)},
		{name: "shortCode", set: func(r *Record, text string) error {
			if text != "" {
				r.Code = text
			}
			return nil
		}},
		{name: "shortUrl", errorMember: "code", required: true, set: func(r *Record, text string) error {
			if r.Code == "" {
				r.Code = pathOf(text)
			}
			return nil
		}},
		{name: "longUrl", errorMember: "url", required: true, set: setExact(url)},
		{name: "title", set: setText(title)},
		{name: "tags", set: setTags},
		{name: "visits", set: setCount(humans)},
	}}
}

// pathOf returns the path of a URL without its first slash.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	_, path, _ := strings.Cut(rest, "/")
	return path
}

// kuttTable returns the columns of the table links of Kutt. An import refuses a link that is banned or has a password,
// because the link would become public. An import ignores the ids and the time of the last change.
func kuttTable() *table {
	return &table{columns: []column{
		{name: "address", errorMember: "code", required: true, set: setExact(code)},
		{name: "target", errorMember: "url", required: true, set: setExact(url)},
		{name: "description", errorMember: "title", set: setText(title)},
		{name: "visit_count", set: setCount(humans)},
		{name: "created_at", set: setPlainTime(createdAt)},
		{name: "expire_in", errorMember: "expires_at", set: setPlainTime(expiresAt)},
		{name: "banned", set: refuseBanned},
		{name: "password", set: refusePassword},
	}}
}

var (
	errBanned   = errors.New("must be false, because the imported link would not be banned; remove the line")
	errPassword = errors.New("must be empty, because the imported link would have no password; remove the line or the password")
)

func refuseBanned(_ *Record, text string) error {
	banned, err := parseSwitch(text)
	if err == nil && banned {
		err = errBanned
	}
	return err
}

func refusePassword(_ *Record, text string) error {
	if !isNull(text) {
		return errPassword
	}
	return nil
}
