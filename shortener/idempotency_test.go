package shortener

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"time"

	"keypool/shortener/destination"
)

func digest(r Request) string {
	key := r.IdempotencyKey("key")
	return hex.EncodeToString(key.Payload[:])
}

// During an upgrade, a client may repeat a request at a server of another release. So the digest of a request must never
// change.
func TestRequestDigestIsSameInAllReleases(t *testing.T) {
	t.Parallel()
	all := Request{
		URL: "https://go.dev/?a=1&b=2", Alias: new("docs"), ExpiresAt: new("2030-01-02T03:04:05Z"), ExpiresIn: new("3600"),
		Title: new("The <Go> language"), Tags: []string{"go", "é"}, Editable: new(false), Redirect: new(301), Forward: new("query"),
	}
	for want, r := range map[string]Request{
		"caa0bb90aa44e6177c8e70f0e31c53e5dd8a7ebcf6949c20b320ccd4f36f09e3": {URL: "https://go.dev"},
		"5e7c44a7e4a471b502a3692623a35a4bddc83f0b938bfa75e1da2b973fb409fb": all,
	} {
		if got := digest(r); got != want {
			t.Errorf("the digest of %+v is %s, want %s", r, got, want)
		}
	}
}

// The digest depends on the members that a client sends, and not on the members that the server adds.
func TestRequestDigestDependsOnlyOnMembersThatClientSends(t *testing.T) {
	t.Parallel()
	self, _ := destination.ParseOrigin("https://go.dev")
	added := map[string]any{"Self": self, "MaxAge": time.Hour, "Owner": int64(1)}
	sent := map[string]any{
		"URL": "https://go.dev", "Alias": new(""), "ExpiresAt": new(""), "ExpiresIn": new(""),
		"Title": new(""), "Tags": []string{}, "Editable": new(false), "Redirect": new(0), "Forward": new(""),
	}
	digests := []string{digest(Request{})}
	for field := range reflect.TypeFor[Request]().Fields() {
		var r Request
		value, isSent := sent[field.Name]
		if !isSent {
			value = added[field.Name]
		}
		if value == nil {
			t.Errorf("decide whether the client sends the member %s", field.Name)
			continue
		}
		reflect.ValueOf(&r).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
		got := digest(r)
		if known := slices.Contains(digests, got); known == isSent {
			t.Errorf("a request with the member %s has the digest of an earlier request: %t", field.Name, known)
		}
		digests = append(digests, got)
	}
}

// A form may contain bytes that are not valid UTF-8. Two requests that differ only in these bytes must have different
// digests.
func TestRequestDigestDependsOnBytesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	texts := 0
	for field := range reflect.TypeFor[Request]().Fields() {
		digests := make(map[string]string)
		for _, text := range []string{"\xe9", "\xe8", "\xe9\xe8", "\ufffd", "\\xe9", `"\xe9"`} {
			var value any
			switch field.Type {
			case reflect.TypeFor[string]():
				value = text
			case reflect.TypeFor[*string]():
				value = &text
			case reflect.TypeFor[[]string]():
				value = []string{"tag", text}
			default:
				continue
			}
			var r Request
			reflect.ValueOf(&r).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
			got := digest(r)
			if other, known := digests[got]; known {
				t.Errorf("%s: requests with %q and %q have the same digest", field.Name, other, text)
			}
			digests[got] = text
			texts++
		}
	}
	if texts == 0 {
		t.Error("a request has no members with a text")
	}
}
