package visits

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// agent contains what the User-Agent header of a visit reveals.
type agent struct {
	bot    bool
	device string
}

// The values of the facet [Devices].
const (
	deviceDesktop = "desktop"
	devicePhone   = "phone"
	deviceTablet  = "tablet"
	deviceOther   = "other"
)

// botWords are words, in lower case, that occur in the user agents of programs and not in the user agents of
// browsers. Phones of one maker are an exception (see isBrowser). The words http, www., .com, .org and @ match the
// address that the user agents of most programs contain: "(+https://example.com/bot)".
//
//nolint:gochecknoglobals // never changed; Go has no slice constants
var botWords = []string{
	"bot", "crawl", "spider", "slurp", "scrape", "http", "www.", ".com", ".org", "@",
	"fetch", "preview", "scan", "monitor", "check", "uptime", "valid", "archiv", "index", "search", "feed", "reader", "transcoder",
	"tracker", "survey", "analy", "audit", "site", "seo", "download", "proxy", "agent/", "speed", "lighthouse",
	"headless", "phantom", "selenium", "puppeteer", "playwright", "python", "curl", "wget", "java/", "perl", "ruby", "php/",
	"facebookexternalhit", "facebookcatalog", "meta-external", "mediapartners", "adsense", "google-", "google web", "googleother",
	"chatgpt", "claude", "perplexity", "embedly", "skypeuri", "snapchat ads", "daum", "heritrix", "nutch", "netcraft", "zgrab", "nmap", "nikto",
}

// classify returns what a user agent reveals. It cannot detect a program that sends the user agent of a browser.
func classify(userAgent string) agent {
	text := strings.ToLower(userAgent)
	return agent{bot: !isBrowser(text), device: deviceOf(text)}
}

// isBrowser reports whether text, a user agent in lower case, is the user agent of a browser. The user agents of browsers
// begin with Mozilla/ or Opera/.
func isBrowser(text string) bool {
	if !strings.HasPrefix(text, "mozilla/") && !strings.HasPrefix(text, "opera/") || !strings.Contains(text, "(") {
		return false
	}
	if strings.Contains(text, "compatible;") && !strings.Contains(text, "msie") && !strings.Contains(text, "konqueror") {
		return false
	}
	text = strings.ReplaceAll(text, "cubot", "") // a maker of phones, whose name contains the word bot
	for _, word := range botWords {
		if strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// deviceOf returns the device of a user agent in lower case. On Android, the user agent of a browser contains the
// word Mobile on a phone, and not on a tablet.
func deviceOf(text string) string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	switch {
	case has("ipad", "tablet", "kindle", "silk/"), has("android") && !has("mobile", "; tv"):
		return deviceTablet
	case has("mobile", "iphone", "ipod", "opera mini", "blackberry"):
		return devicePhone
	case has("windows nt", "macintosh", "x11;", "cros "):
		return deviceDesktop
	}
	return deviceOther
}

const (
	// agentSlots is the maximum number of user agents in memory. It is a power of two.
	agentSlots = 1024
	// maxAgent is the number of bytes of a user agent that are classified. The rest is ignored.
	maxAgent = 512
)

// agents caches the results of classify. It is a hash table with one entry per slot. A user agent replaces the
// older user agent in its slot. The methods of agents may be called concurrently.
type agents struct {
	seed  maphash.Seed
	slots [agentSlots]atomic.Pointer[knownAgent]
}

type knownAgent struct {
	text string
	agent
}

// of returns what a user agent reveals. It allocates only if the user agent is not in memory.
func (t *agents) of(text string) agent {
	text = text[:min(len(text), maxAgent)]
	slot := &t.slots[maphash.String(t.seed, text)%agentSlots]
	if known := slot.Load(); known != nil && known.text == text {
		return known.agent
	}
	known := &knownAgent{strings.Clone(text), classify(text)} // text may share memory with a whole request
	slot.Store(known)
	return known.agent
}
