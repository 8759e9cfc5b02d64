package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// sampler takes a sample each second even if no dashboard is open, so that a dashboard
// that opens later shows the past minutes.
type sampler struct {
	cfg     Config
	history *history

	past    []counts // of earlier samples, back to the start of the latency window
	last    int64    // id of the last event
	failing bool
}

// facts is the data of a "facts" event: the status as the page renders it.
type facts struct {
	State string `json:"state"`
	Fill  string `json:"fill"` // see [Status.Fill]
	Rows  []Row  `json:"rows"` // see [Status.Rows]
}

// run takes samples until ctx ends, then ends the history.
func (s *sampler) run(ctx context.Context) {
	defer s.history.end()
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	s.begin(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// After a pause of the process two ticks come at once. Their interval is too short for a rate.
		if now.Sub(s.past[len(s.past)-1].at) > sampleInterval/2 {
			s.note(ctx, s.sample(now))
		}
	}
}

// begin reads the counts from which the first sample computes its rates.
func (s *sampler) begin(now time.Time) { s.past = append(s.past, s.cfg.Counters.read(now)) }

// sample adds an event to the history. An error means that a value cannot be encoded.
func (s *sampler) sample(now time.Time) error {
	status := s.cfg.Status()
	read := s.cfg.Counters.read(now)
	for len(s.past) > 1 && now.Sub(s.past[0].at) > latencyWindow+sampleInterval/2 {
		s.past = s.past[1:]
	}
	sample := newSample(status, read, s.past)
	s.past = append(s.past, read)
	sample.At = max(sample.At, s.last+1) // also when the clock was set back
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
	return nil
}

// note logs the first of several errors in a row and the first success after them.
func (s *sampler) note(ctx context.Context, err error) {
	switch {
	case err != nil && !s.failing:
		s.cfg.Logger.ErrorContext(ctx, "sample for the dashboard", "error", err)
	case err == nil && s.failing:
		s.cfg.Logger.InfoContext(ctx, "samples for the dashboard are complete again")
	}
	s.failing = err != nil
}

// encodeEvent encodes one event of a stream (WHATWG HTML, section 9.2). Encoded JSON
// contains no line break, so one data field holds it.
func encodeEvent(fields string, data any) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString(fields + "data: ")
	if err := json.NewEncoder(&buf).Encode(data); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}
