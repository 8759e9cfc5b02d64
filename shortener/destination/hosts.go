package destination

import "net/netip"

// Hosts is a set of host names and IP addresses. All spellings of a host are one element. Spellings can differ in
// letter case, in a dot at the end of a name, in punycode, and in the forms of IP addresses that browsers
// accept. Len and [Rules] treat a nil *Hosts as the empty set. Methods other than Add may be called concurrently.
type Hosts struct {
	names map[string]struct{}
	ips   map[netip.Addr]struct{}
}

// NewHosts returns an empty set with room for n host names. The set can grow beyond n.
func NewHosts(n int) *Hosts {
	return &Hosts{names: make(map[string]struct{}, n), ips: make(map[netip.Addr]struct{})}
}

// TakesHost describes the argument of [Hosts.Add]. It is for error texts.
const TakesHost = "a host name or an IP address, without a scheme, port or path"

// Add adds a host. If no link can lead to the host, Add adds nothing and returns false. Add must not be called
// after the set was passed to [Rules].
func (s *Hosts) Add(spelling string) bool {
	h, ok := ParseHost(spelling)
	if !ok {
		return false
	}
	if s.names == nil {
		s.names, s.ips = make(map[string]struct{}), make(map[netip.Addr]struct{})
	}
	if h.ip.IsValid() {
		s.ips[h.ip] = struct{}{}
	} else {
		s.names[h.name] = struct{}{}
	}
	return true
}

// Len returns the number of hosts.
func (s *Hosts) Len() int {
	if s == nil {
		return 0
	}
	return len(s.names) + len(s.ips)
}

// has reports whether h is in the set.
func (s *Hosts) has(h Host) (found bool) {
	if h.ip.IsValid() {
		_, found = s.ips[h.ip]
	} else {
		_, found = s.names[h.name]
	}
	return found
}

// covers reports whether h or a parent domain of h is in the set.
func (s *Hosts) covers(h Host) bool {
	found, last := s.has(h), h.ip.IsValid()
	for !found && !last {
		_, h.name, last = cutLabel(h.name)
		found = s.has(h)
	}
	return found
}
