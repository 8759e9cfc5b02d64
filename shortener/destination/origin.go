package destination

// Origin is the scheme, host and port under which clients reach a service. The zero Origin means
// that the origin is unknown, and matches no URL. An Origin is immutable.
type Origin struct {
	text    string // "" in the zero Origin
	scheme  string
	address address
	host    Host // host of the address
}

// ParseOrigin parses scheme://host[:port], without a path. If the scheme is not http or
// https, or if the host or the port is not valid in a link, ok is false.
func ParseOrigin(text string) (_ Origin, ok bool) {
	scheme, authority, rest, ok := splitURL(text)
	if !ok || rest != "" {
		return Origin{}, false
	}
	a, err := parseAddress(authority)
	if err != nil {
		return Origin{}, false
	}
	if ascii := a.host + a.port; ascii != authority {
		text = scheme + "://" + ascii
	}
	return Origin{text: text, scheme: scheme, address: a, host: hostOf(a.host)}, true
}

// String returns scheme://host[:port] with the host in ASCII, or "" for the zero Origin. Short URLs
// begin with this text.
func (o Origin) String() string { return o.text }

// IsZero reports whether the origin is unknown.
func (o Origin) IsZero() bool { return o.text == "" }

// SameHost reports whether two origins have the same host. It ignores the schemes and the
// ports.
func (o Origin) SameHost(other Origin) bool { return o.host == other.host }

// serves reports whether a URL with this scheme and address leads to the origin.
func (o Origin) serves(scheme string, a address) bool {
	if o.IsZero() || hostOf(a.host) != o.host {
		return false
	}
	port, own := a.number(scheme), o.address.number(o.scheme)
	// A service on https usually also serves plain http, at least to redirect to https.
	bothDefault := port == defaultPort(scheme) && own == defaultPort(o.scheme)
	return port == own || bothDefault
}
