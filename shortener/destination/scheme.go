package destination

import "strings"

// WithScheme returns raw with "https://" before it, if raw is a valid URL apart from the missing
// scheme. The host must be localhost or contain a dot, because a text without a scheme is possibly
// not meant as a URL. For the same reason, the caller must let the user confirm the result.
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
