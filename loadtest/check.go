package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// DefaultPatience is how long a Checker asks for one link.
	DefaultPatience = 10 * time.Second

	readers    = 32                     // links read back at a time
	readPause  = 100 * time.Millisecond // between two tries for one link
	maxReports = 20                     // findings told in words; the others are only counted
)

// Findings says how the acknowledged links fared. All but Checked ought to be 0.
type Findings struct {
	Checked int64    `json:"checked"`           // acknowledged links
	Lost    int64    `json:"lost"`              // the code leads nowhere
	Wrong   int64    `json:"wrong"`             // the code leads elsewhere, or the acknowledgement named none
	Twice   int64    `json:"twice"`             // a code acknowledged again, or a creation stored again
	Unread  int64    `json:"unread"`            // the service did not say: no verdict on this one
	Reports []string `json:"reports,omitempty"` // the first few in words
}

// Broken is how many findings there are that break a guarantee, or may.
func (f Findings) Broken() int64 { return f.Lost + f.Wrong + f.Twice + f.Unread }

// Census calls each for every link that the service stores, which is the only way to
// see what became of creations whose outcome is unknown.
type Census func(ctx context.Context, each func(code, url string)) error

// Checker reads links back. A service may answer from a cache what its store has lost:
// whoever wants to judge the store restarts the service first. A Checker may be used
// concurrently.
type Checker struct {
	Client   *Client
	Patience time.Duration       // for a link that is answered neither yes nor no; 0: DefaultPatience
	Census   Census              // nil: unknown creations are not looked for
	Progress func(checked int64) // nil, or called after each link, from several goroutines
}

// Check reads every acknowledged link among entries, which may come from several
// journals. When ctx ends or the census fails it returns that error with what was
// found until then.
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
			if n := f.checked(); c.Progress != nil {
				c.Progress(n)
			}
			return nil
		})
	}
	err := errors.Join(g.Wait(), ctx.Err())
	if err == nil && c.Census != nil {
		err = f.census(ctx, c.Census, entries)
	}
	return f.findings, err
}

// read asks for the link of e until the answer is yes or no, or patience ends. Reading
// again is harmless, unlike creating again.
func (c *Checker) read(ctx context.Context, e Entry, f *finder) error {
	if e.Code == "" {
		f.report(&f.findings.Wrong, "creation %d was acknowledged without a code", e.N)
		return nil
	}
	patience := c.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	giveUp := time.After(patience)
	for {
		status, location, err := c.Client.Follow(ctx, e.Code)
		if err == nil && f.judge(e, status, location) {
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

// finder gathers the findings of one check.
type finder struct {
	mu       sync.Mutex
	findings Findings
}

// judge takes an answer to the link of e into account, unless it is one that asks to be
// asked again.
func (f *finder) judge(e Entry, status int, location string) (done bool) {
	switch {
	case status == http.StatusFound && location == e.URL:
	case status == http.StatusNotFound || status == http.StatusGone:
		f.report(&f.findings.Lost, "%s, acknowledged for creation %d, is lost: %s", e.Code, e.N, statusText(status))
	case status < 500 && status != http.StatusTooManyRequests:
		f.report(&f.findings.Wrong, "%s, acknowledged for %s, answers %s and leads to %q", e.Code, e.URL, statusText(status), location)
	default:
		return false
	}
	return true
}

// checked counts one more link and returns how many there are now.
func (f *finder) checked() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.findings.Checked++
	return f.findings.Checked
}

// report adds one to count, a member of f.findings, and says why.
func (f *finder) report(count *int64, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*count++
	if len(f.findings.Reports) < maxReports {
		f.findings.Reports = append(f.findings.Reports, fmt.Sprintf(format, args...))
	}
}

// codes looks for codes that were acknowledged more than once.
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

// census looks for creations that became more than one link, whatever was answered.
func (f *finder) census(ctx context.Context, take Census, entries []Entry) error {
	links := make(map[string]string, len(entries)) // URL of an entry -> its first code
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
		return fmt.Errorf("take the census: %w", err)
	}
	return nil
}
