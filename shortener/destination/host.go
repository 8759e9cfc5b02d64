package destination

import (
	"net/netip"
	"strconv"
	"strings"
)

// Host is a host name or an IP address. Two spellings lead to the same host exactly if their hosts are
// equal. Of name and ip, one is the zero value.
type Host struct {
	name string // in lower case and in ASCII, without a dot at the end
	ip   netip.Addr
}

// hostOf returns the host of one of its spellings. The spelling is valid and in ASCII, as parseAddress
// returns it. hostOf allocates memory only for upper-case letters.
func hostOf(spelling string) Host {
	if inside, found := strings.CutPrefix(spelling, "["); found {
		if ip, err := netip.ParseAddr(strings.TrimSuffix(inside, "]")); err == nil {
			return Host{ip: ip.Unmap()}
		}
	}
	name := strings.TrimSuffix(spelling, ".")
	if endsInNumber(name) {
		if ip, ok := parseIPv4(name); ok {
			return Host{ip: ip}
		}
	}
	return Host{name: strings.ToLower(name)}
}

// ParseHost returns the host of a spelling that an operator wrote. It also accepts a name that is not ASCII
// and an IPv6 address without brackets. The result ok is false if no link can lead to the host.
func ParseHost(spelling string) (_ Host, ok bool) {
	if ip, err := netip.ParseAddr(spelling); err == nil && ip.Is6() {
		return Host{ip: ip.Unmap()}, ip.Zone() == ""
	}
	if strings.HasPrefix(spelling, "[") {
		if !validIPv6(spelling) {
			return Host{}, false
		}
		return hostOf(spelling), true
	}
	ascii, err := asciiHost(spelling)
	if err != nil {
		return Host{}, false
	}
	h := hostOf(ascii)
	return h, h.ip.IsValid() || !endsInNumber(h.name)
}

// HostOf returns the host to which a stored URL leads.
func HostOf(url string) Host {
	_, authority, _, _ := splitURL(url)
	spelling, _ := cutPort(authority)
	return hostOf(spelling)
}

// endsInNumber reports whether the last label of a name is a number. Browsers parse such a name as an IPv4
// address. If the name is not a valid IPv4 address, they do not follow the link. See the "ends in a number checker" of the
// URL standard, https://url.spec.whatwg.org/#ends-in-a-number-checker.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return false // almost all names end here
	}
	if digits, hex := cutHex(last); hex {
		return strings.Trim(digits, "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// parseIPv4 parses an IPv4 address in each form that browsers accept: one to four numbers, of which the last
// one fills the rest of the address. See https://url.spec.whatwg.org/#concept-ipv4-parser. Browsers and the
// C function inet_aton open 127.0.0.1 for 0x7f.1 and for 2130706433.
func parseIPv4(name string) (_ netip.Addr, ok bool) {
	var address uint64
	last := false
	for shift := 24; !last; shift -= 8 {
		var label string
		label, name, last = cutLabel(name)
		n, ok := parseIPv4Number(label)
		if !ok || shift < 0 {
			return netip.Addr{}, false
		}
		limit := uint64(1 << 8)
		if last {
			limit <<= shift
			address |= n
		} else {
			address |= n << shift
		}
		if n >= limit {
			return netip.Addr{}, false
		}
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

// cutLabel splits a name after its first label. last is true if there is no further label.
func cutLabel(name string) (label, rest string, last bool) {
	label, rest, found := strings.Cut(name, ".")
	return label, rest, !found
}

// parseIPv4Number parses a decimal number, a hexadecimal number that begins with 0x, or an octal number that begins
// with 0. See https://url.spec.whatwg.org/#ipv4-number-parser.
func parseIPv4Number(label string) (_ uint64, ok bool) {
	base := 10
	if digits, hex := cutHex(label); hex {
		if digits == "" {
			return 0, true
		}
		label, base = digits, 16
	} else if len(label) > 1 && label[0] == '0' {
		base = 8
	}
	n, err := strconv.ParseUint(label, base, 32)
	return n, err == nil
}

// cutHex removes the prefix of a hexadecimal number. Digits need not follow it.
func cutHex(label string) (digits string, hex bool) {
	if len(label) >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X') {
		return label[2:], true
	}
	return label, false
}
