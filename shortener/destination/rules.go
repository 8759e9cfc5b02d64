// Package destination decides where links may lead: which URLs are valid, in which form they are stored, and which hosts they
// must not lead to.
//
// An origin is the scheme, host and port under which clients reach a service. A host has several spellings: for example,
// browsers open the same host for 127.1 and for 127.0.0.1.
//
// Invariants:
//
//   - A stored URL is printable ASCII, and [Rules.Normalize] does not change it.
//   - No spelling of a host evades a rule, because the rules compare hosts and not their spellings.
//   - The work for a URL is proportional to its length.
package destination

import (
	"errors"
	"sync/atomic"
)

// ErrBlocked reports that a URL leads to a host on the block list.
var ErrBlocked = errors.New("the block list covers the host of the URL")

// InvalidError reports why a URL is invalid and what is accepted. Its text may be shown to the user.
type InvalidError struct {
	Reason string // a clause that follows the words "the URL": "must have a host"
}

func (e *InvalidError) Error() string { return "the URL " + e.Reason }

// Rules decide where links may lead. The zero value blocks no host. All methods may be called concurrently.
type Rules struct {
	Own     *Hosts                // further host names of this service; the set must not change
	blocked atomic.Pointer[Hosts] // nil if the block list is empty
}

// Block replaces the block list.
func (r *Rules) Block(hosts *Hosts) {
	if hosts.Len() == 0 {
		hosts = nil // so Blocks returns false without determining the host of the link
	}
	r.blocked.Store(hosts)
}

// Normalize returns raw in the form in which links store it. The parameter self is the origin of this service. If the URL is
// invalid or leads to this service, Normalize fails with an *InvalidError. If the block list covers the host of the URL, it
// fails with ErrBlocked. Every new URL of a link must pass through Normalize.
func (r *Rules) Normalize(raw string, self Origin) (string, error) {
	url, err := normalize(raw, self)
	switch {
	case err != nil:
		return "", err
	case r.Own != nil && r.Own.has(HostOf(url)):
		return "", errLeadsBack()
	case r.Blocks(url):
		return "", ErrBlocked
	}
	return url, nil
}

// Blocks reports whether the block list covers the host of a stored URL. It allocates memory only if the host has upper-case
// letters. In BenchmarkBlocks, Blocks takes 3 ns without a block list, and 0.3 us with a block list of a thousand or a
// million hosts. For comparison, BenchmarkRedirect of package web takes 0.8 us.
func (r *Rules) Blocks(url string) bool {
	blocked := r.blocked.Load()
	return blocked != nil && blocked.covers(HostOf(url))
}
