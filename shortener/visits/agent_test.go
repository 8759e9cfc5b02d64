package visits

import (
	"hash/maphash"
	"strings"
	"testing"
)

// TestClassifyDetectsBotsAndDevices checks that the user agents of programs count as bots, and that the
// user agents of browsers count as people with the right device.
func TestClassifyDetectsBotsAndDevices(t *testing.T) {
	t.Parallel()
	for _, robot := range []string{
		"", " ", "curl/8.14.1", "Wget/1.25.0", "python-requests/2.32.4", "Go-http-client/2.0", "okhttp/4.12.0", "Apache-HttpClient/4.5.14 (Java/17.0.9)",
		"node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "PostmanRuntime/7.44.0", "WhatsApp/2.23.20.0", "Twitterbot/1.0",
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
		"TelegramBot (like TwitterBot)", "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)",
		"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
		"Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
		"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
		"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/141.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Windows NT 6.1; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.0.0 Safari/537.36 Chrome-Lighthouse",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
		"Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", "Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
		"Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
		"Mozilla/5.0 zgrab/0.x", "Mozilla/5.0", "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 12 subscribers; like FeedFetcher-Google)",
	} {
		if !classify(robot).bot {
			t.Errorf("the user agent %q counts as a person, want a bot", robot)
		}
	}
	for _, people := range []struct{ device, agent string }{
		{deviceDesktop, browser},
		{deviceDesktop, "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"},
		{deviceDesktop, "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0"},
		{deviceDesktop, "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15"},
		{deviceDesktop, "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"},
		{deviceDesktop, "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko"},
		{deviceDesktop, "Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0)"},
		{deviceDesktop, "Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18"},
		{deviceDesktop, "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 OPR/125.0.0.0"},
		{devicePhone, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1"},
		{devicePhone, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/384.0 Mobile/15E148 Safari/604.1"},
		{devicePhone, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.31"},
		{devicePhone, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/500.0;FBLC/en_US;FBOP/80]"},
		{devicePhone, "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36"},
		{devicePhone, "Mozilla/5.0 (Linux; Android 13; CUBOT_X70) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36"},
		{devicePhone, "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36"},
		{devicePhone, "Mozilla/5.0 (Android 15; Mobile; rv:143.0) Gecko/143.0 Firefox/143.0"},
		{devicePhone, "Opera/9.80 (J2ME/MIDP; Opera Mini/7.1.32052/29.3709; U; en) Presto/2.8.119 Version/11.10"},
		{deviceTablet, "Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1"},
		{deviceTablet, "Mozilla/5.0 (Linux; Android 14; SM-X710) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"},
		{deviceTablet, "Mozilla/5.0 (Linux; Android 11; KFTRWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/126.4.1 like Chrome/126.0.6478.204 Safari/537.36"},
		{deviceTablet, "Mozilla/5.0 (Android 14; Tablet; rv:143.0) Gecko/143.0 Firefox/143.0"},
		{deviceOther, "Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) Version/7.0 TV Safari/537.36"},
		{deviceOther, "Mozilla/5.0 (PlayStation; PlayStation 5/8.00) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.0 Safari/605.1.15"},
	} {
		if got := classify(people.agent); got.bot || got.device != people.device {
			t.Errorf("%q is %+v, want a person with the device %s", people.agent, got, people.device)
		}
	}
}

func TestUserAgentHasSameClassAfterCacheEntryWasReplaced(t *testing.T) {
	t.Parallel()
	a := &agents{seed: maphash.MakeSeed()}
	for range 2 {
		for i := range 3 * agentSlots {
			suffix := strings.Repeat("x", i%maxAgent)
			if a.of(browser+suffix).bot || !a.of(robot+suffix).bot {
				t.Fatalf("a user agent with %d more characters has another class", len(suffix))
			}
		}
	}
}

func TestOnlyBeginningOfLongUserAgentIsClassified(t *testing.T) {
	t.Parallel()
	a := &agents{seed: maphash.MakeSeed()}
	long := strings.Repeat("x", maxAgent)
	if !a.of(robot + long).bot {
		t.Error("a long user agent that begins like the user agent of a robot counts as a person")
	}
	if got := a.of(browser + long + robot); got != classify(browser) {
		t.Errorf("a user agent with more than %d bytes before the name of a robot is %+v", maxAgent, got)
	}
}

func TestReferrerHostKeepsOnlyTheHost(t *testing.T) {
	t.Parallel()
	for referrer, want := range map[string]string{
		"":                                     "",
		"https://example.com":                  "example.com",
		"HTTP://Example.COM./path?q=secret":    "example.com",
		"https://user:password@example.com/":   "example.com",
		"http://example.com:8080?q":            "example.com",
		"https://xn--bcher-kva.example/#a@b":   "xn--bcher-kva.example",
		"https://[2001:db8::1]/":               "",
		"http://192.0.2.1:8080/admin":          "",
		"http://192.168.1/":                    "",
		"http://router7/":                      "router7",
		"https://bücher.example/":              "",
		"https:///path":                        "",
		"android-app://com.example/":           "",
		"example.com":                          "",
		"https://" + strings.Repeat("a.", 200): "",
		"https://exa\x00mple.com/":             "",
	} {
		if got := referrerHost(referrer); got != want {
			t.Errorf("referrerHost(%q) = %q, want %q", referrer, got, want)
		}
	}
}
