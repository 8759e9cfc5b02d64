package app

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"keypool/kgs/codespace"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
	"keypool/shortener"
)

// parser reads one setting after the other and keeps the first error.
type parser struct{ err error }

// refuse records that the setting got what it cannot take.
func (p *parser) refuse(name, got, takes string) {
	if p.err == nil {
		p.err = &SettingError{Name: name, Got: got, Takes: takes}
	}
}

// Parse reads the settings of either program.
func (f Flags) Parse() (Settings, error) {
	var p parser
	s := p.settings(f)
	return s, p.err
}

// Parse reads the settings of the server.
func (f ServeFlags) Parse(common Flags) (ServeSettings, error) {
	var p parser
	s := ServeSettings{
		Settings:       p.settings(common),
		ListenAddr:     p.address("LISTEN_ADDR", f.ListenAddr),
		BaseURL:        p.baseURL("BASE_URL", f.BaseURL),
		TrustedProxies: p.prefixes("TRUSTED_PROXIES", f.TrustedProxies),
		KeySource:      p.keySource("KEY_SOURCE", f.KeySource, common.RedisURL != ""),
		KGSURL:         p.httpURL("KGS_URL", f.KGSURL, "http://client:token@host[:port] or https://client:token@host[:port]"),
		KGSTake:        p.oneOf("KGS_TAKE", f.KGSTake, "delete", "reserve"),
		MachineID:      leasedMachine,
		HashAlgorithm:  p.oneOf("HASH_ALGORITHM", f.HashAlgorithm, "sha256", "md5"),
		Worker:         p.boolean("KGS_WORKER", f.KGSWorker),
		BatchMin:       int(p.number("KGS_BATCH_MIN", f.BatchMin, 1, 1_000_000)),
		BatchMax:       int(p.number("KGS_BATCH_MAX", f.BatchMax, 1, 1_000_000)),
		Fallback:       p.oneOf("FALLBACK", f.Fallback, "random", "ledger", "none"),
	}
	s.Tickets = p.databases("TICKET_DATABASE_URLS", f.TicketURLs, s.Database)
	if f.MachineID != "" {
		s.MachineID = int(p.number("MACHINE_ID", f.MachineID, 0, 1023))
	}
	p.mustHave(s)
	if s.KeySource == "memory-pool" && !s.Worker {
		p.refuse("KGS_WORKER", f.KGSWorker, "true with KEY_SOURCE=memory-pool, which nobody else can fill")
	}
	if s.BatchMax < s.BatchMin {
		p.refuse("KGS_BATCH_MAX", f.BatchMax, "a number that is not below KGS_BATCH_MIN, "+f.BatchMin)
	}
	return s, p.err
}

func (p *parser) settings(f Flags) Settings {
	s := Settings{
		AdminAddr:    p.address("ADMIN_ADDR", f.AdminAddr),
		Database:     p.database("DATABASE_URL", f.DatabaseURL),
		RedisURL:     p.redis("REDIS_URL", f.RedisURL),
		Secret:       p.secret("KGS_SECRET", f.KGSSecret),
		Permute:      p.boolean("KGS_PERMUTE", f.KGSPermute),
		CodeLength:   int(p.number("CODE_LENGTH", f.CodeLength, codespace.MinLength, codespace.MaxLength)),
		PoolCapacity: p.number("KGS_POOL_CAPACITY", f.PoolCapacity, 100, 10_000_000_000),
		AlertWebhook: p.httpURL("ALERT_WEBHOOK_URL", f.AlertWebhook, "http://host[:port]/... or https://host[:port]/..."),
		Migrate:      p.boolean("MIGRATE", f.Migrate),
		LogLevel:     p.level("LOG_LEVEL", f.LogLevel),
	}
	if f.LogFormat != "" {
		s.LogFormat = p.oneOf("LOG_FORMAT", f.LogFormat, "text", "json")
	}
	s.RestartBelow = p.share("KGS_RESTART_BELOW", f.RestartBelow, s.PoolCapacity)
	s.PageBelow = p.share("KGS_PAGE_BELOW", f.PageBelow, s.PoolCapacity)
	if mark := refill.LowWater(s.PoolCapacity); s.RestartBelow > mark {
		p.refuse("KGS_RESTART_BELOW", f.RestartBelow, fmt.Sprintf("at most 90%%, that is %d keys: from there on the pool is not refilled", mark))
	}
	if s.PageBelow > s.RestartBelow {
		p.refuse("KGS_PAGE_BELOW", f.PageBelow, "a level that is not above KGS_RESTART_BELOW, "+f.RestartBelow)
	}
	return s
}

func (p *parser) number(name, text string, lo, hi int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lo || n > hi {
		p.refuse(name, text, fmt.Sprintf("a whole number from %d to %d", lo, hi))
	}
	return n
}

func (p *parser) boolean(name, text string) bool {
	return p.oneOf(name, text, "true", "false") == "true"
}

func (p *parser) oneOf(name, text string, words ...string) string {
	if !slices.Contains(words, text) {
		p.refuse(name, text, either(words...))
	}
	return text
}

// either lists at least one word.
func either(words ...string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// share reads a level of the pool, in percent of its capacity or in keys.
func (p *parser) share(name, text string, capacity int64) int64 {
	takes := fmt.Sprintf("a percentage such as 20%%, or a number of keys from 0 to the capacity of %d", capacity)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(v >= 0 && v <= 100) {
			p.refuse(name, text, takes)
			return 0
		}
		return int64(v / 100 * float64(capacity))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > capacity {
		p.refuse(name, text, takes)
	}
	return n
}

func (p *parser) address(name, text string) string {
	host, port, err := net.SplitHostPort(text)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n > 65535 || strings.ContainsAny(host, " /") {
		p.refuse(name, text, "[host]:port, such as :8080 or 127.0.0.1:8081")
	}
	return text
}

func (p *parser) baseURL(name, text string) string {
	if text == "" {
		return ""
	}
	const takes = "http://host[:port] or https://host[:port], without a path"
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		p.refuse(name, withoutSecrets(text), takes)
		return ""
	}
	origin, ok := shortener.ParseOrigin(u.Scheme + "://" + u.Host)
	if !ok {
		p.refuse(name, withoutSecrets(text), takes)
	}
	return origin.String()
}

func (p *parser) prefixes(name, text string) []netip.Prefix {
	var out []netip.Prefix
	for field := range strings.SplitSeq(text, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(field)
		if err != nil {
			p.refuse(name, field, "CIDRs separated by commas, such as 10.0.0.0/8,::1/128")
			return nil
		}
		out = append(out, prefix.Masked())
	}
	return out
}

func (p *parser) level(name, text string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.oneOf(name, text, "debug", "info", "warn", "error"))); err != nil {
		return slog.LevelInfo // refused already
	}
	return level
}

func (p *parser) secret(name, text string) []byte {
	if text == "" {
		return nil
	}
	secret, err := hex.DecodeString(text)
	if err != nil || (len(secret) != 16 && len(secret) != 32) {
		p.refuse(name, fmt.Sprintf("%d characters (not shown)", len(text)), "16 or 32 bytes as hex, that is 32 or 64 characters of 0-9 a-f")
	}
	return secret
}

func (p *parser) redis(name, text string) string {
	if text == "" {
		return ""
	}
	if err := redispool.CheckURL(text); err != nil {
		p.refuse(name, withoutSecrets(text), "redis://[:password@]host:port[/db] or rediss://..., several hosts separated by commas")
	}
	return text
}

func (p *parser) httpURL(name, text, takes string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || !isPort(u.Port()) {
		p.refuse(name, withoutSecrets(text), takes)
	}
	return text
}

// isPort reports whether text is one that can be connected to, or "" for the scheme's own.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// nextDatabase is a comma between two database URLs, rather than within one of several hosts.
var nextDatabase = regexp.MustCompile(`,\s*(sqlite:|postgres://|postgresql://)`)

// databases reads two of them, separated by a comma; own stands for both when there are none.
func (p *parser) databases(name, text string, own databaseURL) [2]databaseURL {
	if text == "" {
		return [2]databaseURL{own, own}
	}
	commas := nextDatabase.FindAllStringIndex(text, -1)
	if len(commas) != 1 {
		p.refuse(name, fmt.Sprintf("%d databases", len(commas)+1), "two databases, separated by a comma")
		return [2]databaseURL{}
	}
	first, second := text[:commas[0][0]], strings.TrimSpace(text[commas[0][0]+1:])
	return [2]databaseURL{p.database(name, first), p.database(name, second)}
}

func (p *parser) keySource(name, text string, haveRedis bool) string {
	switch {
	case text == "" && haveRedis:
		return "redis-pool"
	case text == "":
		return "memory-pool"
	}
	return p.oneOf(name, text, keySourceNames()...)
}

// mustHave refuses a key source without the setting that it needs.
func (p *parser) mustHave(s ServeSettings) {
	for _, source := range keySources() {
		if source.name == s.KeySource && !source.needs.met(s) {
			p.refuse("KEY_SOURCE", s.KeySource, s.KeySource+" only together with "+string(source.needs))
		}
	}
}

// withoutSecrets is the scheme and host of a URL, and a sign of whatever follows. What is
// not clearly a URL is not shown at all: a password may be anywhere in it.
func withoutSecrets(text string) string {
	const nothing = "(not shown, for it may hold a password)"
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nothing
	}
	switch rest := u.Path + u.RawQuery + u.Fragment; {
	case strings.Contains(rest, "@"): // the host may be the beginning of a password
		return nothing
	case rest != "":
		return u.Scheme + "://" + u.Host + "/..."
	}
	return u.Scheme + "://" + u.Host
}
