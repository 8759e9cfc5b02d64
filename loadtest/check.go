package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	patience   = 10 * time.Second       // time for which the request for a link is repeated
	readers    = 32                     // number of links that are read back at the same time
	readPause  = 100 * time.Millisecond // pause between two requests for one link
	maxReports = 20                     // findings that are described in words; further findings are only counted
)

// Findings counts what is wrong with the links of a client. All counts except Checked should be 0.
type Findings struct {
	Checked int64    // acknowledged links that were checked; in the findings of [Visits], visits that were answered
	Lost    int64    // links whose code was answered with 404 or 410
	Wrong   int64    // links with any other wrong answer, such as another URL or status, and acknowledgements without a code
	Twice   int64    // acknowledgements of a code beyond the first, and stored links of a creation beyond the first
	Unread  int64    // links for which the service gave no usable answer in time
	Reports []string // the first few findings, as sentences
}

// Broken counts the findings that break a guarantee. An unread link counts too, because it may be lost.
func (f Findings) Broken() int64 { return f.Lost + f.Wrong + f.Twice + f.Unread }

// A Census calls visit for every link that the service stores. [Checker] needs a Census to find creations
// that were stored twice, because the client learns at most one code of each creation.
type Census func(ctx context.Context, visit func(code, url string)) error

// Checker reads links back. A cache of the service may still have links that the store has lost. To check
// the store, the caller must therefore restart the service first. A Checker may be used concurrently.
type Checker struct {
	Client   *Client
	Patience time.Duration // how long Check repeats the request for a link while no usable answer arrives; 0 means 10 s
	Census   Census        // nil means that Check does not look for creations that were stored twice
}

// Check reads back every acknowledged link among entries. The entries may come from several journals. If
// ctx ends or the census fails, Check returns the error together with the findings so far.
func (c *Checker) Check(ctx context.Context, entries []Entry) (Findings, error) {
	f := &finder{}
	f.codes(entries)
	g, readCtx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for _, e := range entries {
		if e.State != Acknowledged || readCtx.Err() != nil {
			continue
		}
		g.Go(func() error {
			if err := c.read(readCtx, e, f); err != nil {
				return err
			}
			f.checked()
			return nil
		})
	}
	err := errors.Join(g.Wait(), ctx.Err())
	if err == nil && c.Census != nil {
		err = f.census(ctx, c.Census, entries)
	}
	return f.findings, err
}

// read requests the link of e until decide accepts an answer or c.Patience has passed. A client may repeat these
// requests, because they change no link.
func (c *Checker) read(ctx context.Context, e Entry, f *finder) error {
	if e.Code == "" {
		f.report(&f.findings.Wrong, "creation %d was acknowledged without a code", e.N)
		return nil
	}
	giveUp := time.After(cmp.Or(c.Patience, patience))
	for {
		status, location, err := c.Client.Follow(ctx, e.Code)
		if err == nil && f.decide(e, status, location) {
			return nil
		}
		select {
		case <-time.After(readPause):
		case <-giveUp:
			f.report(&f.findings.Unread, "%s cannot be read: status %d, error %v", e.Code, status, err)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finder collects the findings of one check.
type finder struct {
	mu       sync.Mutex
	findings Findings
}

// decide records a finding if the answer to a request for the link of e is wrong. It returns false if the
// client should retry: after 429 or 5xx.
func (f *finder) decide(e Entry, status int, location string) (done bool) {
	switch {
	case status == http.StatusFound && location == e.URL:
	case status == http.StatusNotFound || status == http.StatusGone:
		f.report(&f.findings.Lost, "%s was acknowledged for creation %d and is lost: %s", e.Code, e.N, statusText(status))
	case status < 500 && status != http.StatusTooManyRequests:
		f.report(&f.findings.Wrong, "%s was acknowledged for %s, but the answer is %s with Location %q", e.Code, e.URL, statusText(status), location)
	default:
		return false
	}
	return true
}

func (f *finder) checked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.findings.Checked++
}

// report increments count, which points to a field of f.findings, and describes the finding.
func (f *finder) report(count *int64, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*count++
	if len(f.findings.Reports) < maxReports {
		f.findings.Reports = append(f.findings.Reports, fmt.Sprintf(format, args...))
	}
}

// codes finds codes that were acknowledged more than once.
func (f *finder) codes(entries []Entry) {
	first := make(map[string]string, len(entries))
	for _, e := range entries {
		if e.State != Acknowledged || e.Code == "" {
			continue
		}
		if url, taken := first[e.Code]; taken {
			f.report(&f.findings.Twice, "%s was acknowledged for %s and for %s", e.Code, url, e.URL)
			continue
		}
		first[e.Code] = e.URL
	}
}

// census finds creations that were stored as more than one link. It also checks creations that were not acknowledged.
func (f *finder) census(ctx context.Context, take Census, entries []Entry) error {
	links := make(map[string]string, len(entries)) // the first stored code of each URL in entries; "" before it is found
	for _, e := range entries {
		links[e.URL] = ""
	}
	err := take(ctx, func(code, url string) {
		first, ours := links[url]
		switch {
		case ours && first == "":
			links[url] = code
		case ours:
			f.report(&f.findings.Twice, "%s is stored as %s and as %s", url, first, code)
		}
	})
	if err != nil {
		return fmt.Errorf("read all stored links: %w", err)
	}
	return nil
}

// Visits follows acknowledged links and records what is wrong with them. It may be used
// concurrently.
type Visits struct {
	client *Client
	finder finder
}

// NewVisits returns Visits that use client. The caller closes client.
func NewVisits(client *Client) *Visits { return &Visits{client: client} }

// Visit follows the link of e once. It returns Acknowledged if the link leads to its URL, and Refused for
// any other answer. It returns Unknown if no answer arrives, and Unsent if the service cannot be reached.
func (v *Visits) Visit(ctx context.Context, e Entry) State {
	status, location, err := v.client.Follow(ctx, e.Code)
	switch {
	case unreached(err):
		return Unsent
	case err != nil:
		return Unknown
	}
	v.finder.checked()
	v.finder.decide(e, status, location)
	if status == http.StatusFound && location == e.URL {
		return Acknowledged
	}
	return Refused
}

// Findings returns the findings so far. A visit without an answer is not a finding. An answer
// after which the client should retry (429 or 5xx) is not a finding either.
func (v *Visits) Findings() Findings {
	v.finder.mu.Lock()
	defer v.finder.mu.Unlock()
	f := v.finder.findings
	f.Reports = slices.Clone(f.Reports)
	return f
}
