package shortener

import "sync/atomic"

// destinations decides where links may lead.
type destinations struct {
	own     *Hosts                // further names of this service
	blocked atomic.Pointer[Hosts] // nil if the block list is empty
}

// Block replaces the block list. From now on, a creation fails if its URL leads to one of these hosts or to
// a subdomain of one, and links that lead there do not resolve. If a host is no longer blocked, its links resolve again.
func (s *Service) Block(hosts *Hosts) {
	if hosts.Len() == 0 {
		hosts = nil // the redirect then does not determine the host of a link
	}
	s.destinations.blocked.Store(hosts)
}

// check returns an error if a link must not lead to a stored URL. The caller has compared the URL with
// the origin of the request.
func (d *destinations) check(url string) error {
	if d.own != nil && d.own.has(storedHost(url)) {
		return errLeadsBack()
	}
	if d.blocks(url) {
		return ErrBlocked
	}
	return nil
}

// blocks reports whether the block list covers the host of a stored URL. It allocates nothing, unless the
// host has upper-case letters. Without a block list BenchmarkBlocks takes 3 ns. With a block list it takes
// 0.3 us, for a thousand hosts and for a million, while BenchmarkRedirect of package web takes 0.8 us.
func (d *destinations) blocks(url string) bool {
	blocked := d.blocked.Load()
	return blocked != nil && blocked.covers(storedHost(url))
}
