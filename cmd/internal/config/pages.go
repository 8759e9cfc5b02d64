package config

import (
	"encoding"
	"strings"
)

var _ encoding.TextUnmarshaler = (*HostNames)(nil)

// The values of the setting UI.
const (
	UIOff    = "off"
	UIToken  = "token"
	UIHeader = "header"
)

// HostNames are host names in lower case.
type HostNames []string

// UnmarshalText takes host names in ASCII that are separated by commas. White space around a host name is
// ignored.
func (h *HostNames) UnmarshalText(text []byte) error {
	*h = nil
	for field := range strings.SplitSeq(string(text), ",") {
		if field = strings.ToLower(strings.TrimSpace(field)); field == "" {
			continue
		}
		if strings.Trim(field, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
			return &Error{Got: field, Takes: "host names without scheme, port or path, separated by commas, such as keypool.internal,server1"}
		}
		*h = append(*h, field)
	}
	return nil
}
