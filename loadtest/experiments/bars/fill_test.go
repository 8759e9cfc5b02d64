package bars

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
	"keypool/shortener"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observe calls f in a run of an experiment. It fails the test if the run fails.
func observe(t *testing.T, f func(*experiment.T)) {
	t.Helper()
	e := experiment.Define(experiment.Definition[struct{}]{
		Name: "test", Suites: []experiment.Suite{experiment.Full}, Run: func(x *experiment.T, _ *struct{}) { f(x) },
		Claims: []experiment.Claim[struct{}]{{
			Name: "none", Text: "Nothing is claimed.", Kind: report.Bar, Judge: func(*struct{}) experiment.Verdict { return experiment.NotJudged("a test") },
		}},
	})
	r := experiment.Runner{
		Options: experiment.Options{Scale: 1, Log: func(line string) { t.Log(line) }, Live: func(experiment.Live) {}},
		Done: func(e report.Experiment) {
			if e.Error != "" {
				t.Error(e.Error)
			}
		},
	}
	r.Run(t.Context(), []*experiment.Experiment{e})
}

// codesOf returns the codes of all links, in order.
func codesOf(x *experiment.T, f *filled) (codes []string) {
	for link, err := range f.store.All(x.Context()) {
		x.Must(err)
		codes = append(codes, link.Code)
	}
	slices.Sort(codes)
	return codes
}

// The database has the codes that the measurements look up, each with its URL. After a measurement of
// creations, the database has the same links as before it.
func TestFilledDatabaseContainsCodesThatMeasurementsLookUp(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{sqliteEngine(), postgresEngine()} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			const links = 1000
			observe(t, func(x *experiment.T) {
				f := fill(x, e, links)
				var want []string
				for n := range int64(links) {
					want = append(want, space.Code(codeLength, n))
				}
				slices.Sort(want)
				file, err := os.ReadFile(f.codes)
				x.Must(err)
				if got := string(file); len(got) != links*codeLength || !strings.HasPrefix(got, space.Code(codeLength, 0)+space.Code(codeLength, 1)) {
					x.Fatalf("the file of codes has %d bytes", len(got))
				}
				if got := codesOf(x, f); !slices.Equal(got, want) {
					x.Fatalf("the database has %d codes that begin with %q, want %d that begin with %q", len(got), got[:1], links, want[:1])
				}
				_, err = lookUps(x.Context(), f, time.Millisecond)
				x.Must(err)
				micros, err := insertCost(x.Context(), f, 100*time.Millisecond)
				x.Must(err)
				if got := codesOf(x, f); micros <= 0 || !slices.Equal(got, want) {
					x.Fatalf("after creations of %v µs each there are %d links, want the same %d links as before", micros, len(got), links)
				}
			})
		})
	}
}

func TestWrongAnswersOfStoreGiveNoFigure(t *testing.T) {
	t.Parallel()
	f := &filled{links: 10, database: database{store: wrongStore{}}}
	if _, err := lookUps(t.Context(), f, time.Minute); err == nil {
		t.Error("lookUps returns no error for a wrong URL")
	}
	if _, err := insertCost(t.Context(), f, time.Minute); err == nil {
		t.Error("insertCost returns no error for links that exist already")
	}
}

type wrongStore struct{ shortener.Store }

func (wrongStore) Lookup(_ context.Context, code string) (shortener.Link, error) {
	return shortener.Link{Code: code, URL: "https://elsewhere.example/"}, nil
}

func (wrongStore) Insert(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	return slices.Repeat([]shortener.Outcome{shortener.Conflict}, len(links)), nil
}
