package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// auditTimeout limits one audit.
	auditTimeout = time.Minute
	// shownFaults is the maximum number of faults that [Accounts.Problem] names.
	shownFaults = 20
)

// Accounts is the output of `shortener audit --json`. The accounts close when each reserved number is
// in exactly one place (see docs/glossary.md).
type Accounts struct {
	Closes    bool             `json:"closes"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"`    // number of abandoned keys by reason
	Faults    []Fault          `json:"faults"`       // at most 1,000 faults of each kind
	Counts    map[string]int64 `json:"fault_counts"` // number of faults by kind

	// PostgresPool is zero if PostgreSQL keeps no pool.
	PostgresPool struct {
		Reserved int64 `json:"reserved"`
		Unlinked int64 `json:"used_without_link"`
	} `json:"postgres_pool"`
}

// Fault is one key that keeps the accounts from closing.
type Fault struct {
	Kind string `json:"kind"`
	Code string `json:"code"`
}

// Held returns the number of keys in the batches of servers. If PostgreSQL keeps the pool, these are
// the reserved keys and the used keys without a link.
func (a Accounts) Held() int64 {
	return a.InBatches + a.PostgresPool.Reserved + a.PostgresPool.Unlinked
}

// Lost returns the number of abandoned keys, whatever the reason.
func (a Accounts) Lost() (sum int64) {
	for _, n := range a.Abandoned {
		sum += n
	}
	return sum
}

// Problem says why the accounts do not close. It returns "" if they close.
func (a Accounts) Problem() string {
	if a.Closes {
		return ""
	}
	var kinds, first []string
	for _, kind := range slices.Sorted(maps.Keys(a.Counts)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, a.Counts[kind]))
	}
	for _, f := range a.Faults[:min(len(a.Faults), shownFaults)] {
		first = append(first, f.Kind+" "+f.Code)
	}
	return fmt.Sprintf("the accounts do not close; faults by kind: %s; the first faults: %s", strings.Join(kinds, ", "), strings.Join(first, ", "))
}

// Audit runs `shortener audit` with the settings. If the accounts do not close, Audit still returns
// them, because a claim judges [Accounts.Closes]. If the audit itself fails, Audit ends the run.
func Audit(r Run, settings ...string) Accounts {
	a, err := TryAudit(r, settings...)
	must(r, err, "audit")
	r.Logf("audit: closes=%t linked=%d in_batches=%d abandoned=%v", a.Closes, a.Linked, a.InBatches, a.Abandoned)
	return a
}

// TryAudit is like Audit but returns an error. It may be called concurrently.
func TryAudit(r Run, settings ...string) (a Accounts, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), auditTimeout)
	defer cancel()
	made := Command(r, "shortener", r.TempDir(), settings, "audit", "--json")
	cmd := exec.CommandContext(ctx, made.Path, made.Args[1:]...)
	cmd.Dir, cmd.Env = made.Dir, made.Env
	text, err := cmd.Output()
	failed, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		return a, err
	}
	unread := json.Unmarshal(text, &a)
	switch {
	case ended && (unread != nil || a.Closes || len(a.Faults) == 0):
		return a, fmt.Errorf("%w; its output:\n%.1000s\n%.1000s", err, text, failed.Stderr)
	case unread != nil:
		return a, fmt.Errorf("read the output: %w", unread)
	case !ended && !a.Closes:
		return a, fmt.Errorf("exit status 0, but the output does not say that the accounts close:\n%.1000s", text)
	}
	return a, nil
}
