// Package space measures what creations cost as the space of codes fills: the random fallback
// level by level, and every key source.
//
// Invariant: the share of codes in use stands still during a measurement or is known for each
// creation, so the prediction has no free parameter.
//
// Vocabulary: the space is all codes of one length, f the share of them that links have, and an
// attempt one code that a creation tries.
package space

import (
	"fmt"
	"math"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"

	"golang.org/x/sync/errgroup"
)

// Experiments returns the experiments about the space.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{fallback(), keySources()}
}

// alphabet holds the digits of codes in the order of their values.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// filler is the URL of links that only fill a space.
const filler = "https://filler.example/"

// sizeOf is how many codes of a length there are.
func sizeOf(length int) int64 { return int64(math.Pow(float64(len(alphabet)), float64(length))) }

// codeSQL is an SQL expression for the code of the number n, as the ledger makes it without its
// permutation.
func codeSQL(length int) string {
	expression := "''"
	for place := range length {
		expression += fmt.Sprintf(" || substr('%s', CAST(n / %d %% %d AS INTEGER) + 1, 1)", alphabet, sizeOf(length-1-place), len(alphabet))
	}
	return expression
}

// together calls do for the numbers below n, so many at a time, and returns the first error.
func together(n, width int, do func(i int) error) error {
	var calls errgroup.Group
	calls.SetLimit(width)
	for i := range n {
		calls.Go(func() error { return do(i) })
	}
	return calls.Wait()
}

// attemptsChart is a chart of attempts by the share of the codes in use, with the prediction.
func attemptsChart(title string, observed ...report.Series) report.Chart {
	law := report.Series{Name: "1/(1-f)", Predicted: true}
	for f := 0.0; f < 0.95; f += 0.01 {
		law.XY = append(law.XY, [2]float64{f, 1 / (1 - f)})
	}
	return report.Chart{
		Title: title, X: report.Axis{Label: "share f of all codes in use"}, Y: report.Axis{Label: "attempts per creation", Log: true},
		Series: append(observed, law),
	}
}
