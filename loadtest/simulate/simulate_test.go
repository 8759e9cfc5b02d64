package simulate

import (
	"context"
	"errors"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hourWithEveryFault returns the input for an hour with both outages and a deploy.
func hourWithEveryFault() Input {
	return Input{Servers: 20, Keys: 100_000, Duration: 3600, Peak: 1.8, Capacity: 10_000, BatchMin: 100, Outage: 300, WorkerOutage: 600, Deploy: 120, Seed: 1}
}

func TestSameSeedGivesSameResult(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string {
		in := hourWithEveryFault()
		in.Seed = seed
		s, err := Make(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := report.WriteIndented(&b, s); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := text(1)
	for range 3 {
		if text(1) != first {
			t.Fatal("a second run with the same seed has another result")
		}
	}
	if text(2) == first {
		t.Error("a run with another seed has the same result")
	}
}

func TestEveryKeyIsAccountedFor(t *testing.T) {
	t.Parallel()
	s, err := Make(t.Context(), hourWithEveryFault())
	if err != nil {
		t.Fatal(err)
	}
	if !s.Closes || s.Totals.Creations != s.Input.Keys || s.Totals.Failed != 0 {
		t.Errorf("the accounts do not close: %+v", s.Totals)
	}
	if s.Outage.Fallback == 0 || s.Outage.Open != s.Input.Servers || s.Totals.Lost == 0 {
		t.Errorf("Redis was down for %v s, but the run observed %+v and lost %d keys", s.Outage.Seconds, s.Outage, s.Totals.Lost)
	}
	if s.Worker.Least != 0 || s.Worker.Fallback == 0 { // at the peak of 50 creations per second, 10,000 keys last 200 s
		t.Errorf("the workers were down for %v s, but the run observed %+v", s.Worker.Seconds, s.Worker)
	}
	if s.Totals.Returned == 0 || s.Deploy.Fallback > int64(s.Input.Servers) {
		t.Errorf("during the deploy, servers returned %d keys and used the fallback %d times", s.Totals.Returned, s.Deploy.Fallback)
	}
	// The accounts of an altered tally do not close.
	for i, alter := range []func(*Tally){
		func(t *Tally) { t.Twice++ }, func(t *Tally) { t.Fallback++ }, func(t *Tally) { t.Lost++ }, func(t *Tally) { t.Abandoned++ }, func(t *Tally) { t.Held-- },
	} {
		altered := s.Totals
		if alter(&altered); altered.Closes() {
			t.Errorf("the accounts close after alteration %d", i)
		}
	}
}

// The simulator agrees within 5 % with the full load test of real servers in docs/benchmarks.md.
func TestSimulationMatchesMeasuredRunsWithinFivePercent(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, sentence := range []string{"A pool of a million keys was empty after 497.9 s at 2,000/s", "The local keys lasted 3.01 s, and the prediction was 3.00 s"} {
		if !strings.Contains(string(document), sentence) {
			t.Errorf("docs/benchmarks.md does not contain %q", sentence)
		}
	}
	drain, err := Run(t.Context(), Config{
		Servers: 1, Capacity: 1_000_000, Filled: 1_000_000, BatchMin: 50, BatchMax: 50, Duration: 600 * time.Second,
		Step: 25 * time.Millisecond, Sample: time.Minute, Load: Steady(0, 600*time.Second, 2000, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the time until the pool is empty", drain.EmptyAt.Seconds(), 497.9)
	if s := drain.Signals; len(s) < 2 || s[len(s)-2].State != "restart" || s[len(s)-1].State != "page" {
		t.Errorf("the signals are %+v, want restart and page at the end", s)
	}
	outage, err := Run(t.Context(), Config{
		Servers: 20, Workers: 1, Capacity: 50_000, Filled: 50_000, BatchMin: 100, BatchMax: 100, Duration: 12 * time.Second,
		Step: 5 * time.Millisecond, Sample: time.Second, Load: Steady(time.Second, 12*time.Second, 1000, 20),
		Events: []Event{{At: 4 * time.Second, Kind: RedisStops}, {At: 11 * time.Second, Kind: RedisStarts}},
	})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the time that local keys last", outage.MeanLasted().Seconds(), 3.01)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	t.Logf("%s: %.2f s simulated, %.2f s measured", what, got, want)
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%s differs by more than 5 %%: %v s simulated, %v s measured", what, got, want)
	}
}

func TestSimulatedDayHasPeakInMiddle(t *testing.T) {
	t.Parallel()
	perHour := make([]int, 24)
	for at, server := range daily(240_000, 24*time.Hour, time.Second, 1.8, 7, 1) {
		if server < 0 || server > 6 {
			t.Fatalf("the load has a creation for server %d, but there are only servers 0 to 6", server)
		}
		perHour[int(at.Hours())]++
	}
	total := 0
	for _, n := range perHour {
		total += n
	}
	// The average is 10,000 creations an hour. In the middle, the rate is 1.8 times the average, and at the edges
	// 0.2 times the average.
	if total != 240_000 || perHour[0] < 2000 || perHour[0] > 2300 || perHour[12] < 17_700 || perHour[12] > 18_000 {
		t.Errorf("the load has %d creations, and by hour %v", total, perHour)
	}
}

func TestInterruptionEndsSimulation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Make(ctx, hourWithEveryFault()); s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Make returns the simulation %v and the error %v, want no simulation and context.Canceled", s, err)
	}
}

func TestTextOfSmallestSimulationUsesSingular(t *testing.T) {
	t.Parallel()
	s, err := Make(t.Context(), Input{Servers: 1, Keys: 1, Duration: 60, Peak: 1, Capacity: 100, BatchMin: 1})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if want := "1 creation on 1 server in 1 min;"; !strings.Contains(text.String(), want) {
		t.Errorf("the text does not contain %q:\n%s", want, &text)
	}
}

// A reader of the text can check that servers used, returned, lost or still have every key that they took.
func TestTextAccountsForEveryTakenKey(t *testing.T) {
	t.Parallel()
	s, err := Make(t.Context(), hourWithEveryFault())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	figure := func(label string) (n int64) {
		found := regexp.MustCompile(`(?m)^  ` + label + ` +([\d,]+)$`).FindStringSubmatch(text.String())
		if found == nil {
			t.Fatalf("the text has no %q:\n%s", label, &text)
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	taken, held := figure("keys that servers took"), figure("keys on servers at the end")
	sum := figure("creations with keys of the pool") + figure("keys that servers returned") + figure("keys that servers could not return") + held
	if taken != sum || held == 0 {
		t.Errorf("servers took %d keys, and the text accounts for %d, of which %d are on servers", taken, sum, held)
	}
}

func TestTextAndPageShowEveryEvent(t *testing.T) {
	t.Parallel()
	s, err := Make(t.Context(), hourWithEveryFault())
	if err != nil {
		t.Fatal(err)
	}
	var text, page strings.Builder
	if err := errors.Join(s.WriteText(&text), s.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"100,000 creations on 20 servers", "Redis is down for 5 min", "All workers are down for 10 min", "A deploy replaces all servers"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not contain %q:\n%s", want, &text)
		}
	}
	if got := strings.Count(page.String(), "<svg"); got != 4 {
		t.Errorf("the page has %d charts, want 4", got)
	}
}
