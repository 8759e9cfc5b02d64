package api

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// An answer with a link has the same bytes as the encoding of its struct by encoding/json.
func FuzzLinkJSON(f *testing.F) {
	created := time.Date(2026, time.March, 1, 12, 0, 0, 120_000_000, time.UTC).UnixMicro()
	for _, seed := range []struct {
		code, url        string
		created, expires int64
	}{
		{"abc", "https://go.dev/?a=1&b=<2>", created, zeroTime},
		{"a-b_c", `https://go.dev/"\`, created + 123_456, created},
		{"", "b\u00fccher\u2028\x00\x7f\t\xff", -1, 0},
		{"abc", "https://go.dev/", 1 << 60, zeroTime}, // a year that RFC 3339 cannot express
		{"abc", "https://go.dev/", created, -1 << 60},
	} {
		f.Add(seed.code, seed.url, seed.created, seed.expires)
	}
	f.Fuzz(func(t *testing.T, code, url string, created, expires int64) {
		l := &Link{
			Code: code, ShortURL: "http://sho.rt/" + code, URL: url,
			CreatedAt: time.UnixMicro(created).UTC(), ExpiresAt: time.UnixMicro(expires).UTC(),
		}
		assertEncoded(t, l)
		assertEncoded(t, &ownedLink{Link: *l})
		assertEncoded(t, &ownedLink{
			Link: *l, Title: url, Tags: []string{code, url}, Owner: code, ChangedAt: l.ExpiresAt, DeletedAt: l.CreatedAt,
		})
		assertEncoded(t, &ownedLink{Link: *l, Title: code, Tags: []string{url}, DeletedAt: l.ExpiresAt})
	})
}

func assertEncoded(t *testing.T, l interface {
	appendJSON(b []byte) ([]byte, error)
},
) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	wantErr := enc.Encode(l)
	got, err := l.appendJSON(nil)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("the answer is %q, want %q", got, want.Bytes())
	}
}

// zeroTime is the zero time in microseconds since 1970.
const zeroTime = -62_135_596_800_000_000
