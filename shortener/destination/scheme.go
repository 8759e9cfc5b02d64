package destination

import "strings"

// WithScheme returns raw with "https://" before it, if raw lacks nothing but its scheme. The user
// has to confirm the result, because a text without a scheme is not always meant as a URL. So the
// host must be localhost or have a dot.
func WithScheme(raw string, self Origin) (url string, ok bool) {
	s := strings.TrimPrefix(strings.TrimSpace(raw), "//")
	if strings.Contains(s, "://") {
		return "", false
	}
	url = "https://" + s
	if _, err := normalize(url, self); err != nil {
		return "", false
	}
	_, authority, _, _ := splitURL(url)
	host, _ := cutPort(authority)
	if !strings.Contains(strings.TrimSuffix(host, "."), ".") && !strings.EqualFold(host, "localhost") {
		return "", false
	}
	return url, true
}
