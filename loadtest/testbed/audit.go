package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// auditTimeout bounds one audit.
	auditTimeout = time.Minute
	// shownFaults is how many of the faults an error names.
	shownFaults = 20
)

// Accounts is what the harness reads of `shortener audit --json`.
type Accounts struct {
	Closes    bool             `json:"closes"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"`
	Faults    []Fault          `json:"faults"`

	// PostgresPool is all 0 where no pool is kept in PostgreSQL.
	PostgresPool struct {
		Reserved int64 `json:"reserved"`
		Unlinked int64 `json:"used_without_link"`
	} `json:"postgres_pool"`
}

// Fault is one key that keeps accounts from closing.
type Fault struct {
	Kind string `json:"kind"`
	Code string `json:"code"`
}

// Held is how many keys are in the hands of servers, or of what became of them.
func (a Accounts) Held() int64 {
	return a.InBatches + a.PostgresPool.Reserved + a.PostgresPool.Unlinked
}

// Audit closes the accounts of a service with the settings ("NAME=value"). Accounts that do
// not close are an error, which names some of the faults.
func (b *Bed) Audit(ctx context.Context, settings ...string) (a Accounts, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.programs, "shortener"), "audit", "--json")
	cmd.Dir, cmd.Env = b.dir, append([]string{"PATH=" + os.Getenv("PATH")}, settings...)
	text, err := cmd.Output()
	failed, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		return a, fmt.Errorf("audit: %w", err)
	}
	unread := json.Unmarshal(text, &a)
	switch {
	case ended && len(a.Faults) > 0:
		return a, fmt.Errorf("audit: %w: the accounts do not close, by %d keys: %v", err, len(a.Faults), a.Faults[:min(len(a.Faults), shownFaults)])
	case ended:
		return a, fmt.Errorf("audit: %w:\n%.1000s\n%.1000s", err, text, failed.Stderr)
	case unread != nil:
		return a, fmt.Errorf("audit: %w", unread)
	case !a.Closes: // its exit status and its words are at odds
		return a, fmt.Errorf("audit: it succeeds and does not say that the accounts close:\n%.1000s", text)
	}
	return a, nil
}
