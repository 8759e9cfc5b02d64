package bench

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
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

// A bar without a figure of its own, or of its baseline, is none. Unless it is a yardstick,
// an error has to say so.
func TestFinished(t *testing.T) {
	t.Parallel()
	some, aim, failed := rounds.Series{1, 1, 1}, AtLeast(1), errors.New("a round failed")
	right := Bar{What: "right", Measured: some, Aim: aim}
	tests := []struct {
		name    string
		lost    Bar
		err     error
		wantErr string // "" for none
	}{
		{"yardstick", Bar{What: "lost"}, nil, ""},
		{"after an error", Bar{What: "lost", Aim: aim}, failed, "a round failed"},
		{"in silence", Bar{What: "lost", Aim: aim}, nil, "lost: there is no figure"},
		{"without its baseline", Bar{What: "lost", Measured: some, Versus: "wrong", Aim: aim}, nil, "lost: there is no figure"},
	}
	for _, tt := range tests {
		bars, err := finished([]Bar{tt.lost, right}, tt.err)
		if len(bars) != 1 || bars[0].What != right.What {
			t.Errorf("%s: %v, want the bar with figures", tt.name, bars)
		}
		if (err == nil) != (tt.wantErr == "") || err != nil && !strings.HasPrefix(err.Error(), tt.wantErr) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.wantErr)
		}
	}
}
