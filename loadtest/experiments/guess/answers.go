package guess

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"keypool/loadtest"
)

// scanWidth is the number of guesses in progress at the same time.
const scanWidth = 16

// answers counts guesses by their answers.
type answers struct {
	hits, misses, refused, failed int64
	refusal                       string // the first answer that is neither a hit nor a miss
}

// decided returns the number of guesses that hit or missed.
func (a *answers) decided() int64 { return a.hits + a.misses }

// add counts the answer to a guess.
func (a *answers) add(status int, err error) {
	switch {
	case err == nil && (status == http.StatusFound || status == http.StatusGone):
		a.hits++
		return
	case err == nil && status == http.StatusNotFound:
		a.misses++
		return
	case err == nil && status == http.StatusTooManyRequests:
		a.refused++
	default:
		a.failed++
	}
	a.refusal = cmp.Or(a.refusal, fmt.Sprintf("%d %s, error %v", status, http.StatusText(status), err))
}

// botnet returns the address of guess n. Each guess has its own address.
func botnet(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff) }

// oneAddress returns the same address for every guess, as if one attacker made all guesses.
func oneAddress(int) string { return "198.51.100.7" }

// try requests the codes until all are requested or ctx ends, and counts the answers. It names the
// address of each guess in a header, as a reverse proxy does.
func (a *answers) try(ctx context.Context, target string, codes []string, address func(n int) string) {
	transport := &http.Transport{MaxIdleConnsPerHost: scanWidth}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var guesses errgroup.Group
	guesses.SetLimit(scanWidth)
	for n, code := range codes {
		if ctx.Err() != nil {
			break
		}
		guesses.Go(func() error {
			status, err := guess(ctx, transport, target+"/"+code, address(n))
			if ctx.Err() != nil {
				return nil // the end of ctx interrupted the guess
			}
			mu.Lock()
			defer mu.Unlock()
			a.add(status, err)
			return nil
		})
	}
	_ = guesses.Wait() // the functions in the group return no error
}

// guess requests a URL and returns the status of the answer. The header X-Forwarded-For names the address.
func guess(ctx context.Context, transport http.RoundTripper, url, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Forwarded-For", address)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // an error of Close does not matter: the body was read, or err says why it was not
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
