package schemes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"keypool/loadtest"
	"keypool/loadtest/scenario"
)

// Shares of codes that are above the one before, from which on codes are in order, and up
// to which they are in none.
const (
	inOrder = 0.98
	noOrder = 0.60
)

// The claims of the part.
const (
	claimForm     = "codes as documented"
	claimClass    = "codes of their class"
	claimGuessed  = "counters are guessed"
	claimScatter  = "other codes are not guessed"
	enoughGuessed = 95 // of nextCodes
)

// codesFound is what the codes of a scheme told.
type codesFound struct {
	least, most int     // characters
	ascending   float64 // the share of codes that are above the one before
	strange     int     // codes with other digits, or another length, than those of the class
	guessed     guessed
	byURL       float64 // of 100 codes, how many whoever knows the URL can name
}

// codes lets each scheme make links one after the other on one connection, and looks at
// nothing but their codes. Nothing is timed, so they do it side by side.
func (e *experiment) codes(ctx context.Context) error {
	e.enterCodes()
	runs := e.everybody(ctx)
	e.enter("%d links of each scheme, one after the other", e.codeCount())
	links, err := newTraffics(runs)
	if err != nil {
		return err
	}
	defer links.close()
	runs = beside(ctx, e, runs, called, func(ctx context.Context, r *running) error { return oneByOne(ctx, links[r], e.codeCount()) })
	if ctx.Err() != nil {
		return nil
	}
	e.enter("guessing")
	runs = beside(ctx, e, runs, called, func(_ context.Context, r *running) error {
		e.found[r.name].codes = look(classOf(r.class), links[r].Entries())
		return nil
	})
	e.read(ctx, runs, links)
	e.JudgeLinks(e.links)
	e.judgeCodes()
	e.drawCodes()
	return nil
}

// oneByOne makes n links, and fails with the first that is not made.
func oneByOne(ctx context.Context, t *scenario.Traffic, n int) error {
	for i := 0; i < n && ctx.Err() == nil; i++ {
		outcome, err := t.One(ctx)
		if err != nil {
			return err
		}
		if outcome.State != loadtest.Acknowledged && ctx.Err() == nil {
			return fmt.Errorf("a link is not made: %s %s", outcome.State, outcome.Detail)
		}
	}
	return nil
}

// look is what codes tell that were made in this order.
func look(c class, entries []loadtest.Entry) *codesFound {
	f := &codesFound{least: len(entries[0].Code)}
	var codes []string
	above, known := 0, 0
	for i, entry := range entries {
		codes = append(codes, entry.Code)
		f.least, f.most = min(f.least, len(entry.Code)), max(f.most, len(entry.Code))
		if !c.holds(entry.Code) {
			f.strange++
		}
		if i > 0 && entry.Code > entries[i-1].Code {
			above++
		}
		if entry.Code == hashed(entry.URL) {
			known++
		}
	}
	f.ascending = float64(above) / float64(max(1, len(codes)-1))
	f.byURL = 100 * float64(known) / float64(len(codes))
	f.guessed = c.guessAll(codes)
	return f
}

// hashed is the code that a hash of the URL alone gives.
func hashed(url string) string {
	digest := sha256.Sum256([]byte(url))
	return base64.RawURLEncoding.EncodeToString(digest[:])[:6]
}

// ofClass says whether the codes are such as the class has.
func (f *codesFound) ofClass(c class) bool {
	if c.ascending {
		return f.strange == 0 && f.ascending >= inOrder
	}
	return f.strange == 0 && f.ascending <= noOrder && f.ascending >= 1-noOrder
}
