package bench

import (
	"errors"
	"fmt"

	"keypool/loadtest/rounds"
)

// Aim is where a bar lies. The zero Aim is that of a yardstick.
type Aim struct {
	sense sense
	bound float64
}

type sense uint8

const (
	none sense = iota
	atLeast
	atMost
)

// AtLeast is the aim of a figure that ought to be high.
func AtLeast(bound float64) Aim { return Aim{atLeast, bound} }

// AtMost is the aim of a figure that ought to be low.
func AtMost(bound float64) Aim { return Aim{atMost, bound} }

func (a Aim) holds(figure float64) bool {
	if a.sense == atMost {
		return figure <= a.bound
	}
	return figure >= a.bound
}

// Verdict is what became of a bar.
type Verdict string

// The verdicts.
const (
	Holds     Verdict = "holds"
	Misses    Verdict = "does not hold"
	Yardstick Verdict = "yardstick"
)

// Bar is one figure with its aim.
type Bar struct {
	What     string // "durable creations, SQLite"
	Unit     string // of what was measured
	Measured rounds.Series
	Versus   string        // what the baseline is; "" when the figure itself is judged
	Baseline rounds.Series // in the same unit, of the same rounds
	Aim      Aim           // of the ratio where there is a baseline, else of the figure
	Note     string        // what a reader must know to understand the figure
}

// judged is what the aim is about: ratios, or the figures themselves.
func (b *Bar) judged() rounds.Series {
	if b.Versus == "" {
		return b.Measured
	}
	return b.Measured.Over(b.Baseline)
}

// finished are the bars of a group that have figures, and a baseline where they want one. The
// error is the group's, which says why others have none; where there is none, any that is
// missing is one, but for yardsticks.
func finished(bars []Bar, err error) ([]Bar, error) {
	var good []Bar
	var missing []error
	for i := range bars {
		switch b := &bars[i]; {
		case len(b.judged()) > 0:
			good = append(good, *b)
		case err == nil && b.Aim.sense != none:
			missing = append(missing, fmt.Errorf("%s: there is no figure, and no error", b.What))
		}
	}
	return good, errors.Join(append(missing, err)...)
}

// Verdict judges the median over the rounds; a bar without a figure does not hold.
func (b *Bar) Verdict() Verdict {
	switch judged := b.judged(); {
	case b.Aim.sense == none:
		return Yardstick
	case len(judged) > 0 && b.Aim.holds(judged.Median()):
		return Holds
	}
	return Misses
}

// aim says the aim in words.
func (b *Bar) aim() string {
	unit := b.Unit
	if b.Versus != "" {
		unit = rounds.Times
	}
	switch b.Aim.sense {
	case atLeast:
		return "≥ " + rounds.Quantity(b.Aim.bound, unit)
	case atMost:
		return "≤ " + rounds.Quantity(b.Aim.bound, unit)
	case none:
	}
	return ""
}
