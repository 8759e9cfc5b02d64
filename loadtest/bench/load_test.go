package bench

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"keypool/loadtest/rounds"
	"keypool/loadtest/wrk"
)

// A server that stores less than it acknowledges, or answers what is no redirect, has no
// figure: the check of the subject says so.
func TestCheckFailsTheFigure(t *testing.T) {
	t.Parallel()
	bare := httptest.NewServer(bareHandler())
	defer bare.Close()
	r := testRun(t, "")
	missing := errors.New("rows are missing")
	l := load{Load: wrk.Load{URL: visit(bare.URL, "any").URL, Script: "get"}}
	if figure, err := r.wrk("bare", l).Measure(t.Context()); err != nil || figure <= 0 {
		t.Errorf("%v, %v; want a figure", figure, err)
	}
	l.check = func(_ context.Context, answers int64) error {
		if answers <= 0 {
			t.Error("the check was told of no answers")
		}
		return missing
	}
	if figure, err := r.wrk("bare", l).Measure(t.Context()); !errors.Is(err, missing) {
		t.Errorf("%v, %v; want the error of the check", figure, err)
	}
	l = load{Load: wrk.Load{URL: creation(bare.URL).URL, Script: "post", Args: []string{"no JSON"}}}
	if figure, err := r.wrk("bare", l).Measure(t.Context()); err == nil {
		t.Errorf("%v creations a second, all of them refused", figure)
	}
}

// A bar without a figure of its own, or of its baseline, is none.
func TestFinished(t *testing.T) {
	t.Parallel()
	some := rounds.Series{1, 1, 1}
	bars := finished([]Bar{{}, {Measured: some}, {Measured: some, Versus: "wrong"}})
	if len(bars) != 1 {
		t.Errorf("%d bars, want the one with figures", len(bars))
	}
}
