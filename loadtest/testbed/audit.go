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

// auditTimeout bounds one audit.
const auditTimeout = time.Minute

// Accounts is what the harness reads of `shortener audit --json`.
type Accounts struct {
	Closes    bool             `json:"closes"`
	Reserved  int64            `json:"reserved"`
	InPool    int64            `json:"in_pool"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"`
}

// Audit closes the accounts of a service with the settings ("NAME=value"). Accounts that do
// not close are an error.
func (b *Bed) Audit(ctx context.Context, settings ...string) (a Accounts, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.programs, "shortener"), "audit", "--json")
	cmd.Dir, cmd.Env = b.dir, append([]string{"PATH=" + os.Getenv("PATH")}, settings...)
	text, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return a, fmt.Errorf("audit: %w:\n%.1000s\n%.1000s", err, text, failed.Stderr)
	}
	if err != nil {
		return a, fmt.Errorf("audit: %w", err)
	}
	err = json.Unmarshal(text, &a)
	return a, err
}
