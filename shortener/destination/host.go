package destination

import (
	"net/netip"
	"strconv"
	"strings"
)

// Host is a host name or an IP address, whatever its spelling. Two spellings lead to the same host if, and only if,
// their Hosts are equal. At most one of name and ip is set.
type Host struct {
	name string // in lower case and in ASCII, without a dot at the end
	ip   netip.Addr
}

// hostOf returns the host of a spelling. The spelling must be valid and in ASCII, as parseAddress returns it.
// hostOf allocates memory only if the spelling has upper-case letters.
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

// ParseHost returns the host of a spelling that a person wrote. It also accepts a name that is not ASCII, and an IPv6
// address without brackets. If no link can lead to the host, ok is false.
func ParseHost(spelling string) (_ Host, ok bool) {
	if strings.HasPrefix(spelling, "[") {
		if !validIPv6(spelling) {
			return Host{}, false
		}
		return hostOf(spelling), true
	}
	if strings.Contains(spelling, ":") { // a name has no colon; for a name, netip.ParseAddr would allocate an error
		ip, err := netip.ParseAddr(spelling)
		return Host{ip: ip.Unmap()}, err == nil && ip.Zone() == ""
	}
	ascii, err := asciiHost(spelling)
	if err != nil {
		return Host{}, false
	}
	return hostOf(ascii), true
}

// HostOf returns the host to which a stored URL leads.
func HostOf(url string) Host {
	_, authority, _, _ := splitURL(url)
	spelling, _ := cutPort(authority)
	return hostOf(spelling)
}

// endsInNumber reports whether the last label of a name is a number. Browsers parse such a name as an IPv4 address,
// and do not follow the link if the address is invalid. See https://url.spec.whatwg.org/#ends-in-a-number-checker.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return false // the result for almost all names
	}
	if digits, hex := cutHex(last); hex {
		return strings.Trim(digits, "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// parseIPv4 parses an IPv4 address in each form that browsers accept. Such a form has one to four numbers, and
// the last number fills the remaining bytes of the address. For example, 0x7f.1 and 2130706433 stand for
// 127.0.0.1. See https://url.spec.whatwg.org/#concept-ipv4-parser.
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

// cutLabel splits a name after its first label. If there is no further label, last is true.
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

// cutHex removes the prefix 0x of a hexadecimal number. The digits after the prefix may be missing.
func cutHex(label string) (digits string, hex bool) {
	if len(label) >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X') {
		return label[2:], true
	}
	return label, false
}
