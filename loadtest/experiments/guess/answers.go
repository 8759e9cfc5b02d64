package guess

import (
	"cmp"
	"context"
	"fmt"
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
	client := loadtest.NewClient(target, 0)
	defer client.Close()
	var mu sync.Mutex
	var guesses errgroup.Group
	guesses.SetLimit(scanWidth)
	for n, code := range codes {
		if ctx.Err() != nil {
			break
		}
		guesses.Go(func() error {
			answer, err := client.Send(ctx, http.MethodGet, "/"+code, http.Header{"X-Forwarded-For": {address(n)}}, nil)
			if ctx.Err() != nil {
				return nil // the end of ctx interrupted the guess
			}
			mu.Lock()
			defer mu.Unlock()
			a.add(answer.Status, err)
			return nil
		})
	}
	_ = guesses.Wait() // the functions in the group return no error
}
