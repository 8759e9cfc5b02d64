package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// Latency is judged beside that of the simplest things that make up a request, at the same
// rate and in turn with it, so that a busy machine is slow for both; and by the median of
// several rounds, so that what keeps the machine busy for a moment decides nothing. Where
// that is not enough, because other programs take much of the processors, a latency that is
// too long is not judged: it may be theirs. Of a deployment that was there already it is: its
// own programs could not be told from others.
const (
	latencyBound = 10 * time.Millisecond // what is promised on a quiet machine
	besideFactor = 1.5                   // times the parts of a request, each alone
	steadyRounds = 5
	warmUp       = 300 * time.Millisecond
	besideShare  = 0.3 // of the time of a load, for each thing beside it
)

// steady is a load at one rate, in rounds, each followed by what it is measured beside.
type steady struct {
	what   string // "creations"
	rate   float64
	lasts  time.Duration // the load in all
	load   load
	beside []*beside // none: nothing to measure beside
	pulse  *pulse
	stand  *stand // what the load is on

	warm    *loadtest.Recorder // of the load while it warms up
	total   *loadtest.Recorder // of the load from then on
	rounds  int                // that ran to their end
	seconds float64            // of load, until the last outcome of each round
	p99s    []float64          // of the load, by rounds, in ms
	least   [][]float64        // of what is beside it, by things and rounds, in ms
	others  float64            // the share of the processors that other programs took
}

// run warms up and then does the rounds, or those that ctx leaves time for.
func (s *steady) run(ctx context.Context) error {
	s.warm, s.total, s.least = loadtest.NewRecorder(), loadtest.NewRecorder(), make([][]float64, len(s.beside))
	for _, b := range s.beside {
		b.run(ctx, s.rate, warmUp, loadtest.NewRecorder())
	}
	if err := s.load(ctx, s.rate, warmUp, s.warm); err != nil {
		return err
	}
	before, err := readProcessors(ctx)
	if err != nil {
		return err
	}
	for range steadyRounds {
		if err := s.round(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		s.rounds++
	}
	after, err := readProcessors(ctx)
	s.others = after.others(before)
	return err
}

func (s *steady) round(ctx context.Context) error {
	each := s.lasts / steadyRounds
	s.pulse.enter(fmt.Sprintf("steady %.0f %s/s", s.rate, s.what))
	r := s.recorder()
	started := time.Now()
	err := s.load(ctx, s.rate, each, r)
	s.seconds += time.Since(started).Seconds()
	s.total.Add(r)
	if err != nil || ctx.Err() != nil {
		return err
	}
	s.p99s = append(s.p99s, milliseconds(r.Figures().Latency.P99))
	for i, b := range s.beside {
		s.pulse.enter(fmt.Sprintf("beside it, %s %.0f times/s", b.name, s.rate))
		r := s.recorder()
		b.run(ctx, s.rate, time.Duration(besideShare*float64(each)), r)
		f := r.Figures()
		if ctx.Err() == nil && (f.Failed() > 0 || f.Acknowledged == 0) { // its p99 would allow anything
			return fmt.Errorf("%s, to measure beside, got what it should not: %+v", b.name, f)
		}
		s.least[i] = append(s.least[i], milliseconds(f.Latency.P99))
	}
	return nil
}

// all is what came of the whole load, while it warmed up too.
func (s *steady) all() loadtest.Figures {
	all := loadtest.NewRecorder()
	all.Add(s.warm)
	all.Add(s.total)
	return all.Figures()
}

// recorder is a new one that the pulse shows.
func (s *steady) recorder() *loadtest.Recorder {
	r := loadtest.NewRecorder()
	s.pulse.watch(r, s.stand.admin)
	return r
}

// claimLatency enters the claim that [Part.judgeLatency] judges.
func (p *Part) claimLatency(name, what, parts string, rate float64) {
	p.Claim(name, fmt.Sprintf("At %.0f %s a second, 99 of 100 take at most %.0f ms from when they were due, or, where that is more, at most "+
		"%.1f times as long as %s on this machine, at the same rate and in turn with them (the median of %d rounds).",
		rate, what, milliseconds(latencyBound), besideFactor, parts, steadyRounds), "ms")
}

// unfinished takes back that a claim holds that was not tried for all rounds.
func (p *Part) unfinished(name string, s *steady) {
	if p.find(name).Verdict == report.Held && s.rounds < steadyRounds {
		p.CannotJudge(name, "%d of %d rounds ran", s.rounds, steadyRounds)
	}
}

// judgeLatency holds the p99 of a load against those of what it is measured beside.
func (p *Part) judgeLatency(name string, s *steady) {
	if s.rounds < steadyRounds {
		p.CannotJudge(name, "%d of %d rounds ran", s.rounds, steadyRounds)
		return
	}
	p99 := median(s.p99s)
	if len(s.beside) == 0 {
		p.CannotJudge(name, "there is nothing here to measure beside; the p99 was %.1f ms", p99)
		return
	}
	sum, all := 0.0, []string(nil)
	for i, b := range s.beside {
		least := median(s.least[i])
		sum += least
		all = append(all, fmt.Sprintf("%s %.1f ms", b.name, least))
	}
	limit := max(milliseconds(latencyBound), besideFactor*sum)
	// What is refused at once, or never sent, makes the p99 short. That any failed, other claims tell.
	if f := s.total.Figures(); f.Failed() > 0 && p99 <= limit {
		p.CannotJudge(name, "%d of %d failed: a p99 of %.1f ms says nothing", f.Failed(), f.Sent+f.Unsent, p99)
		return
	}
	p.Figures(name, limit, p99)
	p.Judge(name, p99 <= limit, "p99 %.1f ms; in turn with it %s, so at most %.1f ms are allowed", p99, strings.Join(all, ", "), limit)
	if s.stand.ours() {
		p.Excuse(name, s.others)
	}
}
