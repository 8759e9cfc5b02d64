package scenario

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"keypool/loadtest"

	"golang.org/x/sync/errgroup"
)

// answers counts guesses by what was answered.
type answers struct {
	Hits, Misses, Refused, Failed int64
	found                         []int  // the guesses that hit, by their index
	refusal                       string // the first answer that is neither a hit nor a miss
}

func (a *answers) add(b answers) {
	a.Hits += b.Hits
	a.Misses += b.Misses
	a.Refused += b.Refused
	a.Failed += b.Failed
	a.found = append(a.found, b.found...)
	if a.refusal == "" {
		a.refusal = b.refusal
	}
}

// told is how many guesses the service gave an answer to.
func (a answers) told() int64 { return a.Hits + a.Misses }

// answerTo is the answer to guess n.
func answerTo(n, status int, err error) answers {
	switch {
	case err != nil:
		return answers{Failed: 1, refusal: err.Error()}
	case status == http.StatusFound || status == http.StatusGone:
		return answers{Hits: 1, found: []int{n}}
	case status == http.StatusNotFound:
		return answers{Misses: 1}
	case status == http.StatusTooManyRequests:
		return answers{Refused: 1, refusal: http.StatusText(status)}
	}
	return answers{Failed: 1, refusal: http.StatusText(status)}
}

// botnet is the address that guess n comes from: each has its own.
func botnet(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff) }

// oneAddress is where a lone attacker sits.
func oneAddress(int) string { return "198.51.100.7" }

// scanner guesses. It says of each guess whose it is, as a reverse proxy would.
type scanner struct {
	target    string
	transport *http.Transport
}

func newScanner(target string) *scanner {
	return &scanner{target: target + "/", transport: &http.Transport{MaxIdleConnsPerHost: scanWidth}}
}

func (s *scanner) close() { s.transport.CloseIdleConnections() }

// try makes all guesses, or as many as it can until ctx ends.
func (s *scanner) try(ctx context.Context, codes []string, from func(n int) string) (all answers) {
	var mu sync.Mutex
	var guesses errgroup.Group
	guesses.SetLimit(scanWidth)
	for n, code := range codes {
		if ctx.Err() != nil {
			break
		}
		guesses.Go(func() error {
			status, err := s.guess(ctx, code, from(n))
			if ctx.Err() != nil {
				return nil // cut off by us
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(answerTo(n, status, err))
			return nil
		})
	}
	_ = guesses.Wait() // none of them fails
	return all
}

func (s *scanner) guess(ctx context.Context, code, from string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.target+code, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Forwarded-For", from)
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // whatever it said was read or is an error by now
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxPage))
	return res.StatusCode, err
}

// maxPage bounds what is read of an answer, in bytes.
const maxPage = 64 << 10
