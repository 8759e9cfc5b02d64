package config

import (
	"bytes"
	"encoding"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"keypool/kgs/redispool"
)

// Each of these types except Prefix is a URL, which may contain secrets. An error shows only the part of a URL that Redacted
// returns, or the path of a file that a RedisURL names.
var (
	_ encoding.TextUnmarshaler = (*BaseURL)(nil)
	_ encoding.TextUnmarshaler = (*RedisURL)(nil)
	_ encoding.TextUnmarshaler = (*Prefix)(nil)
	_ encoding.TextUnmarshaler = (*KGSURL)(nil)
	_ encoding.TextUnmarshaler = (*WebhookURL)(nil)
)

// BaseURL is the prefix of short URLs, without a slash at the end.
type BaseURL string

const takesBaseURL = "http://host[:port] or https://host[:port], without a path"

// UnmarshalText takes an http or https URL without a path. [Server.Complete] and [Server.CompleteImport] check the host.
func (b *BaseURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || !isHTTP(u) || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return &Error{Got: Redacted(string(text)), Takes: takesBaseURL}
	}
	*b = BaseURL(u.Scheme + "://" + u.Host)
	return nil
}

// normalize checks the host and converts it to ASCII.
func (b *BaseURL) normalize(origin func(text string) (string, bool)) error {
	if *b == "" {
		return nil
	}
	ascii, ok := origin(string(*b))
	if !ok {
		return &Error{"BASE_URL", Redacted(string(*b)), takesBaseURL}
	}
	*b = BaseURL(ascii)
	return nil
}

// RedisURL is the address of a Redis, including the password.
type RedisURL string

// UnmarshalText takes a URL that [redispool.ParseURL] can parse.
func (r *RedisURL) UnmarshalText(text []byte) error {
	_, err := redispool.ParseURL(string(text))
	var file *redispool.FileError
	switch {
	case errors.As(err, &file):
		return &Error{Got: file.Param + "=" + file.Path, Takes: "a PEM file that can be read: " + file.Err.Error()}
	case err != nil: // the error may quote a part of the password
		return &Error{Got: Redacted(string(text)),
			Takes: "redis://[:password@]host:port[/db], or rediss://... for TLS (tls_ca, tls_cert and tls_key need rediss); several hosts are separated by commas"}
	}
	*r = RedisURL(text)
	return nil
}

// Prefix is the text with which the names of all keys in Redis begin.
type Prefix string

// UnmarshalText takes 1 to 64 letters, digits, dots, hyphens and underscores.
func (p *Prefix) UnmarshalText(text []byte) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"
	if len(text) < 1 || len(text) > 64 || strings.Trim(string(text), allowed) != "" {
		return &Error{Got: string(text), Takes: "1 to 64 letters, digits, dots, hyphens and underscores"}
	}
	*p = Prefix(text)
	return nil
}

// KGSURL is the address of a key service, including the token of the client.
type KGSURL string

// TakesKGSURL describes a valid KGSURL for an [Error].
const TakesKGSURL = "http://client:token@host[:port][/path] or https://client:token@host[:port][/path]"

// UnmarshalText takes an http or https URL with a host, and without a query and a fragment. It does not check the client
// and its token.
func (k *KGSURL) UnmarshalText(text []byte) error {
	if err := checkHTTP(string(text), TakesKGSURL); err != nil {
		return err
	}
	if bytes.ContainsAny(text, "?#") {
		return &Error{Got: Redacted(string(text)), Takes: TakesKGSURL}
	}
	*k = KGSURL(text)
	return nil
}

// WebhookURL is the address of a webhook. Often the whole URL is a secret.
type WebhookURL string

// UnmarshalText takes an http or https URL with a host.
func (w *WebhookURL) UnmarshalText(text []byte) error {
	if err := checkHTTP(string(text), "http://host[:port]/... or https://host[:port]/..."); err != nil {
		return err
	}
	*w = WebhookURL(text)
	return nil
}

func checkHTTP(text, takes string) error {
	u, err := url.Parse(text)
	if err != nil || !isHTTP(u) || u.Hostname() == "" || !isPort(u.Port()) {
		return &Error{Got: Redacted(text), Takes: takes}
	}
	return nil
}

func isHTTP(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// isPort reports whether text is a port that a client can connect to. An empty text means the
// default port of the scheme.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// Redacted returns the scheme and host of a URL. It replaces everything after the host by "/...".
// If text is not clearly a URL, Redacted replaces the whole text, because any part may be a
// password. An empty text stays empty.
func Redacted(text string) string {
	const hidden = "(not shown because it may hold a password)"
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return hidden
	}
	switch rest := u.Path + u.RawQuery + u.Fragment; {
	case strings.Contains(rest, "@"): // the host may be the beginning of a password
		return hidden
	case rest != "":
		return u.Scheme + "://" + u.Host + "/..."
	}
	return u.Scheme + "://" + u.Host
}
