package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// sampler looks at the program once a second, whether anyone watches or not, so that
// whoever comes sees what led to the present.
type sampler struct {
	cfg     AdminConfig
	history *history

	past    []counts // of earlier samples, back to the beginning of the latency window
	last    int64    // id of the last event
	failing bool
}

// facts is the data of a "facts" event: the present in words, as the page has it when it
// is loaded. Rows are as in [Status.Rows].
type facts struct {
	State string `json:"state"`
	Fill  string `json:"fill"` // of the pool, in percent; "" where there is no telling
	Rows  []Row  `json:"rows"`
}

// run samples until ctx ends, and then ends the history.
func (s *sampler) run(ctx context.Context) {
	defer s.history.end()
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	s.note(ctx, s.begin(time.Now()))
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// After a pause of the process two ticks come at once, too near for a rate.
		if now.Sub(s.past[len(s.past)-1].at) > sampleInterval/2 {
			s.note(ctx, s.sample(now))
		}
	}
}

// begin reads what the first rates are reckoned from.
func (s *sampler) begin(now time.Time) error {
	read, err := readCounts(s.cfg.Gatherer, now)
	s.past = append(s.past, read)
	return err
}

// sample adds an event to the history. What could not be read is unknown in it; the error
// says why.
func (s *sampler) sample(now time.Time) error {
	status := s.cfg.Status()
	read, gatherErr := readCounts(s.cfg.Gatherer, now)
	for len(s.past) > 1 && now.Sub(s.past[0].at) > latencyWindow+sampleInterval/2 {
		s.past = s.past[1:]
	}
	sample := newSample(status, read, s.past)
	s.past = append(s.past, read)
	sample.At = max(sample.At, s.last+1) // also when the clock was put back
	s.last = sample.At
	text, err := encodeEvent(fmt.Sprintf("id: %d\nevent: sample\n", sample.At), sample)
	if err != nil {
		return err
	}
	words, err := encodeEvent("event: facts\n", facts{status.State, status.Fill(), status.Rows()})
	if err != nil {
		return err
	}
	s.history.add(event{sample.At, text}, words)
	return gatherErr
}

// note logs an error when it begins and when it is over, not each second.
func (s *sampler) note(ctx context.Context, err error) {
	switch {
	case err != nil && !s.failing:
		s.cfg.Logger.ErrorContext(ctx, "the dashboard does not see all", "error", err)
	case err == nil && s.failing:
		s.cfg.Logger.InfoContext(ctx, "the dashboard sees all again")
	}
	s.failing = err != nil
}

// encodeEvent writes one event of a stream (WHATWG HTML, section 9.2): JSON has no line
// ends of its own, so one data field holds it.
func encodeEvent(fields string, data any) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString(fields + "data: ")
	if err := json.NewEncoder(&buf).Encode(data); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}
