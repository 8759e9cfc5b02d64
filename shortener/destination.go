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

// normalize returns raw in the form that is stored. It fails with an *InvalidError, also if the URL leads to this
// service, or with ErrBlocked. Every change of a destination must pass through it. self is the origin of the request.
func (d *destinations) normalize(raw string, self Origin) (string, error) {
	url, err := normalizeURL(raw, self)
	switch {
	case err != nil:
		return "", err
	case d.own != nil && d.own.has(storedHost(url)):
		return "", errLeadsBack()
	case d.blocks(url):
		return "", ErrBlocked
	}
	return url, nil
}

// blocks reports whether the block list covers the host of a stored URL. It allocates nothing, unless the
// host has upper-case letters. Without a block list BenchmarkBlocks takes 3 ns. With a block list it takes
// 0.3 us, for a thousand hosts and for a million, while BenchmarkRedirect of package web takes 0.8 us.
func (d *destinations) blocks(url string) bool {
	blocked := d.blocked.Load()
	return blocked != nil && blocked.covers(storedHost(url))
}
