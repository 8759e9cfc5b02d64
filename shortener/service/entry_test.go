package service

import (
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"keypool/shortener"
)

// TestEntryKeepsALink checks that a link from the cache equals the link from the store, byte for byte.
func TestEntryKeepsALink(t *testing.T) {
	t.Parallel()
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "never") {
			return time.Time{}
		}
		return time.UnixMicro(rapid.Int64Range(-1<<52, 1<<52).Draw(t, "microseconds")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		want := shortener.Link{
			Code: rapid.StringN(1, 64, -1).Draw(t, "code"), URL: rapid.String().Draw(t, "URL"), Source: rapid.String().Draw(t, "source"),
			CreatedAt: moment.Draw(t, "created"), ExpiresAt: moment.Draw(t, "expires"), DeletedAt: moment.Draw(t, "deleted"),
			Details: rapid.SampledFrom([]*shortener.Details{nil, {Owner: 1, Version: 1}}).Draw(t, "details"),
		}
		if got := newEntry(want, time.Second).link(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// TestEntrySize checks that an entry still fits into a size class of the allocator, of 80 bytes.
func TestEntrySize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(entry{}); got > 80 {
		t.Errorf("an entry has %d bytes, want at most 80", got)
	}
}
