package config

import (
	"encoding"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"keypool/internal/quota"
	"keypool/kgs/keyserver"
)

// Each of these types holds the value of one setting. Its method UnmarshalText parses the text of
// the setting. For an invalid text, the method returns an [*Error] without a Name. The function decode
// sets the Name.
var (
	_ encoding.TextUnmarshaler = (*Address)(nil)
	_ encoding.TextUnmarshaler = (*Switch)(nil)
	_ encoding.TextUnmarshaler = (*Level)(nil)
	_ encoding.TextUnmarshaler = (*Networks)(nil)
	_ encoding.TextUnmarshaler = (*Secret)(nil)
	_ encoding.TextUnmarshaler = (*Machine)(nil)
	_ encoding.TextUnmarshaler = (*Clients)(nil)
	_ encoding.TextUnmarshaler = (*Rate)(nil)
	_ encoding.TextUnmarshaler = (*Age)(nil)
)

// Address is the address of a listener: [host]:port.
type Address string

// UnmarshalText takes [host]:port with a numeric port. It does not resolve the host.
func (a *Address) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || strings.ContainsAny(host, " /") {
		return &Error{Got: string(text), Takes: "[host]:port, such as :8080 or 127.0.0.1:8081"}
	}
	*a = Address(text)
	return nil
}

// Switch is a setting that is true or false. Switch is not a bool, because kong accepts a bool flag
// without a value, such as --migrate. A flag must have the same form as its environment variable,
// which always has a value.
type Switch struct{ On bool }

// UnmarshalText takes true or false.
func (s *Switch) UnmarshalText(text []byte) error {
	switch string(text) {
	case "true":
		s.On = true
	case "false":
		s.On = false
	default:
		return &Error{Got: string(text), Takes: "true or false"}
	}
	return nil
}

// Level is a level of a pool, in percent of its capacity or in keys.
type Level struct {
	text    string
	percent float64
	keys    int64 // number of keys, if the level is not in percent
}

const takesLevel = "a percentage such as 20%, or a number of keys from 0 to the capacity"

// UnmarshalText takes a percentage from 0% to 100%, or a number of keys that is not negative.
func (l *Level) UnmarshalText(text []byte) error {
	*l = Level{text: string(text)}
	var err error
	if percent, ok := strings.CutSuffix(l.text, "%"); ok {
		l.percent, err = strconv.ParseFloat(percent, 64)
	} else {
		l.keys, err = strconv.ParseInt(l.text, 10, 64)
	}
	if err != nil || l.keys < 0 || !(l.percent >= 0 && l.percent <= 100) { // NaN is not in the interval
		return &Error{Got: l.text, Takes: takesLevel + " of the pool"}
	}
	return nil
}

// Keys returns the level as a number of keys of a pool with this capacity. A percentage is rounded to the nearest number.
func (l Level) Keys(capacity int64) int64 {
	if strings.HasSuffix(l.text, "%") {
		return int64(math.Round(l.percent * float64(capacity) / 100))
	}
	return l.keys
}

// String returns the text of the setting.
func (l Level) String() string { return l.text }

// Networks are IP networks with cleared host bits.
type Networks []netip.Prefix

// UnmarshalText takes CIDRs separated by commas. White space around a CIDR is ignored. An empty text means no
// networks.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	if len(text) == 0 {
		return nil
	}
	for field := range strings.SplitSeq(string(text), ",") {
		field = strings.TrimSpace(field)
		prefix, err := netip.ParsePrefix(field)
		if err != nil || prefix.Addr().Is4In6() { // the programs unmap each address first, so a mapped network would match none
			return &Error{Got: field, Takes: "CIDRs separated by commas, such as 10.0.0.0/8,::1/128; an IPv4 network is not written as ::ffff:10.0.0.0/104"}
		}
		*n = append(*n, prefix.Masked())
	}
	return nil
}

// Secret is the key of the cipher FF1 (NIST SP 800-38G), which permutes the codes. It is nil if
// KGS_SECRET is not set.
type Secret []byte

// UnmarshalText takes 16 or 32 bytes as hex.
func (s *Secret) UnmarshalText(text []byte) error {
	secret, err := hex.DecodeString(string(text))
	if err != nil || (len(secret) != 16 && len(secret) != 32) {
		return &Error{Got: notShown(text), Takes: "16 or 32 bytes as hex, that is 32 or 64 characters of 0-9 a-f"}
	}
	*s = secret
	return nil
}

// notShown describes a secret value without showing any part of it.
func notShown(text []byte) string { return fmt.Sprintf("%d characters (not shown)", len(text)) }

// Machine is a Snowflake machine id. The zero value means that the database assigns the id.
type Machine struct {
	id    int
	fixed bool
}

// FixedMachine returns the machine id that the operator assigns.
func FixedMachine(id int) Machine { return Machine{id, true} }

// ID returns the machine id, or -1 if the database assigns the id.
func (m Machine) ID() int {
	if !m.fixed {
		return -1
	}
	return m.id
}

// UnmarshalText takes a number from 0 to 1023.
func (m *Machine) UnmarshalText(text []byte) error {
	id, err := wholeNumber(string(text), 0, 1023)
	*m = FixedMachine(int(id))
	return err
}

// Clients are the programs that may take keys from a key service.
type Clients []keyserver.Client

// UnmarshalText takes client=token pairs; see [keyserver.ParseClients].
func (c *Clients) UnmarshalText(text []byte) error {
	clients, err := keyserver.ParseClients(string(text))
	if err != nil {
		return &Error{Got: notShown(text), Takes: keyserver.ClientsForm}
	}
	*c = clients
	return nil
}

// Rate is the rate of a limit. The zero value means that the setting is not set.
type Rate struct {
	quota.Rate

	set bool
}

// Limit returns the rate, or nil if the setting is not set.
func (r Rate) Limit() *quota.Rate {
	if !r.set {
		return nil
	}
	return &r.Rate
}

// UnmarshalText takes a rate such as 100/s, or off.
func (r *Rate) UnmarshalText(text []byte) error {
	rate, err := quota.ParseRate(string(text))
	if err != nil {
		return &Error{Got: string(text), Takes: quota.Takes}
	}
	*r = Rate{rate, true}
	return nil
}

// Age is the life of a link or of a token. 0 means that the setting is not set.
type Age time.Duration

// maxAge is the longest life of a link or a token with an expiry: 100 years.
const maxAge = 100 * 365 * 24 * time.Hour

// UnmarshalText takes a Go duration from 1s to 876000h.
func (a *Age) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Second || d > maxAge {
		return &Error{Got: string(text), Takes: fmt.Sprintf("a duration from 1s to %.0fh, such as 720h or 36h30m", maxAge.Hours())}
	}
	*a = Age(d)
	return nil
}

// wholeNumber reads a decimal number from lo to hi.
func wholeNumber(text string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, &Error{Got: text, Takes: fmt.Sprintf("a whole number from %d to %d", lo, hi)}
	}
	return n, nil
}
