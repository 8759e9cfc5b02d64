package client

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"keypool/internal/quota"
	"keypool/shortener/token"
	"keypool/web/httpserver"
	"keypool/web/internal/problem"
)

// Default limits of one client. They allow for typing errors and for many people who share one address. They stop a
// scan for codes, which needs thousands of requests per second.
const (
	defaultMissRate  = 50
	defaultMissBurst = 200
)

// DefaultClients is the default of Limits.Clients.
const DefaultClients = 1 << 16

// LimitMemory is the number of bytes that one limit of one client takes in memory.
const LimitMemory = 192

// DefaultAnonymousRate is the rate of anonymous creations of each address. It does not apply to loopback addresses.
const DefaultAnonymousRate quota.Rate = 10

// Limits configures the limits of clients. Each server counts separately. The zero value has the default limits.
type Limits struct {
	MissRate, MissBurst int           // misses of an address per second and in a burst; 50 and 200 if 0
	AnonymousRate       *quota.Rate   // rate of anonymous creations of an address; if nil, 10/s except for loopback addresses
	AnonymousMaxAge     time.Duration // longest life of an anonymous link; 0 for no maximum
	TokensOnly          bool          // whether each creation needs a token
	Clients             int           // clients in memory, for each kind of limit; DefaultClients if 0
}

// allowance is how much a limiter allows one client.
type allowance struct {
	rate  rate.Limit // per second
	burst int        // requests that may arrive at once
}

func creationsAt(r quota.Rate) allowance { return allowance{rate.Limit(r), r.Burst()} }

// limiter limits the rate of each client. It is safe for concurrent use.
type limiter[Client comparable] struct {
	// An unused rate.Limiter regains its burst after some time, and then equals a new rate.Limiter. Therefore an entry
	// of an idle client can be dropped without effect. The entries need no expiry, because the table has a size limit.
	clients *otter.Cache[Client, *rate.Limiter]
	refused prometheus.Counter
}

func newLimiter[Client comparable](clients int, refused prometheus.Counter) *limiter[Client] {
	return &limiter[Client]{refused: refused, clients: otter.Must(&otter.Options[Client, *rate.Limiter]{
		MaximumSize: clients,
		Executor:    func(f func()) { f() }, // run maintenance in the calling goroutine
	})}
}

// of returns the rate.Limiter of a client.
func (l *limiter[Client]) of(client Client, a allowance) *rate.Limiter {
	r, ok := l.clients.GetIfPresent(client)
	if !ok {
		r, _ = l.clients.SetIfAbsent(client, rate.NewLimiter(a.rate, a.burst))
	}
	return r
}

// spend counts one request of the client against its allowance. It returns how many requests are left, or
// a *problem.LimitedError if no request was left.
func (l *limiter[Client]) spend(client Client, a allowance) (left int, err error) {
	r := l.of(client, a)
	if !r.Allow() {
		return 0, l.refusal(r)
	}
	return int(r.Tokens()), nil
}

func (l *limiter[Client]) refusal(r *rate.Limiter) error {
	l.refused.Inc()
	return &problem.LimitedError{Limit: problem.ErrLimited, RetrySeconds: secondsUntilNext(r)}
}

// secondsUntilNext returns the seconds after which a client may send its next request. The result is at
// least 1.
func secondsUntilNext(r *rate.Limiter) int {
	return max(1, int(math.Ceil((1-r.Tokens())/float64(r.Limit()))))
}

// Misses refuses clients with too many misses. Only misses count, so a client that only follows
// existing links is never refused. A request of a client without misses costs one look-up in
// memory. Misses is safe for concurrent use.
type Misses struct {
	*limiter[netip.Prefix]
	allowance
}

// Admit returns an error while the client has no misses left. Callers call it before the look-up,
// so that a refusal does not reveal whether the code exists.
func (m *Misses) Admit(client netip.Prefix) error {
	if r, ok := m.clients.GetIfPresent(client); ok && r.Tokens() < 1 {
		m.refused.Inc()
		return &problem.LimitedError{Limit: problem.ErrTooManyMisses, RetrySeconds: secondsUntilNext(r)}
	}
	return nil
}

// Count records one miss of the client.
func (m *Misses) Count(client netip.Prefix) {
	// Reserve counts the miss even if the client has no misses left. While a client has one miss left, Admit may let
	// several concurrent requests through. Each of their misses must count.
	m.of(client, m.allowance).Reserve()
}

// PrefixOf returns the client to which an address belongs, as [httpserver.ClientOf] does. A malformed address has
// the zero prefix.
func PrefixOf(ip string) netip.Prefix {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.Prefix{}
	}
	return httpserver.ClientOf(addr)
}

// Limiters are the limiters of the public listener. They are safe for concurrent use.
type Limiters struct {
	Limits
	Misses    Misses
	anonymous *limiter[netip.Prefix]
	tokens    *limiter[int64] // by the id of the token
}

// Refused counts the requests that each limit refused.
type Refused struct{ Anonymous, Token, Miss prometheus.Counter }

// NewLimiters returns limiters in which each client has its full quota.
func NewLimiters(cfg Limits, refused Refused) *Limiters {
	if cfg.MissRate == 0 {
		cfg.MissRate = defaultMissRate
	}
	if cfg.MissBurst == 0 {
		cfg.MissBurst = defaultMissBurst
	}
	if cfg.Clients == 0 {
		cfg.Clients = DefaultClients
	}
	return &Limiters{
		Limits:    cfg,
		Misses:    Misses{newLimiter[netip.Prefix](cfg.Clients, refused.Miss), allowance{rate.Limit(cfg.MissRate), cfg.MissBurst}},
		anonymous: newLimiter[netip.Prefix](cfg.Clients, refused.Anonymous),
		tokens:    newLimiter[int64](cfg.Clients, refused.Token),
	}
}

// SpendToken counts one creation with a token.
func (l *Limiters) SpendToken(c echo.Context, tok token.Token) error {
	if tok.Rate == quota.Off {
		return nil
	}
	left, err := l.tokens.spend(tok.ID, creationsAt(tok.Rate))
	announce(c, "token", tok.Rate, left)
	return err
}

// AnnounceToken sets the headers that describe the limit of a token, and counts nothing.
func (l *Limiters) AnnounceToken(c echo.Context, tok token.Token) {
	if tok.Rate != quota.Off {
		announce(c, "token", tok.Rate, max(0, int(l.tokens.of(tok.ID, creationsAt(tok.Rate)).Tokens())))
	}
}

// SpendLine counts one creation with a token and sets no headers. Bulk requests and the forms of the pages for links
// use it. The headers of the answer to a bulk request describe the quota before the first line (see AnnounceToken).
func (l *Limiters) SpendLine(tok token.Token) error {
	if tok.Rate == quota.Off {
		return nil
	}
	_, err := l.tokens.spend(tok.ID, creationsAt(tok.Rate))
	return err
}

// SpendAnonymous counts one creation without a token. For a client without a limit, it allocates no memory.
func (l *Limiters) SpendAnonymous(c echo.Context) error {
	ip := c.RealIP()
	r := l.anonymousRate(ip)
	if r == quota.Off {
		return nil
	}
	left, err := l.anonymous.spend(PrefixOf(ip), creationsAt(r))
	announce(c, "anonymous", r, left)
	return err
}

func (l *Limiters) anonymousRate(ip string) quota.Rate {
	if l.AnonymousRate != nil {
		return *l.AnonymousRate
	}
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Unmap().IsLoopback() {
		return quota.Off
	}
	return DefaultAnonymousRate
}

// announce sets the headers that describe a limit, in the structured form of
// draft-ietf-httpapi-ratelimit-headers. In the headers, q is the quota, and w the number of seconds
// in which an empty quota becomes full. The member r is the rest of the quota (left), and t the number of
// seconds, at least 1, until the quota is full again.
func announce(c echo.Context, limit string, rate quota.Rate, left int) {
	q := rate.Burst()
	complete := max(1, (q-left+int(rate)-1)/int(rate))
	h := c.Response().Header()
	h.Set("RateLimit-Policy", fmt.Sprintf(`%q;q=%d;w=%d`, limit, q, q/int(rate)))
	h.Set("RateLimit", fmt.Sprintf(`%q;r=%d;t=%d`, limit, left, complete))
}
