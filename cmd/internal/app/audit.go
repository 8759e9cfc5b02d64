package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"

	"keypool/kgs"
)

// AuditFlags are those of the command audit.
type AuditFlags struct {
	JSON bool `name:"json" help:"Print the accounts as JSON."`
}

// shownFaults is how many faults the text report names; JSON has them all.
const shownFaults = 20

// runAudit closes the accounts: exit status 0 they close, 1 they do not, 2 it could
// not be done.
func runAudit(ctx context.Context, c console, flags Flags, audit AuditFlags) int {
	accounts, err := closeAccounts(ctx, flags, c.errors)
	if err != nil {
		c.complain(fmt.Errorf("audit: %w", err))
		return 2
	}
	if err := printAccounts(c.out, accounts, audit.JSON); err != nil {
		c.complain(fmt.Errorf("audit: %w", err))
		return 2
	}
	if len(accounts.Faults) > 0 {
		return 1
	}
	return 0
}

func closeAccounts(ctx context.Context, flags Flags, log io.Writer) (_ kgs.Accounts, err error) {
	c, err := openOffline(ctx, flags, log)
	if err != nil {
		return kgs.Accounts{}, err
	}
	defer func() { err = errors.Join(err, c.life.stop(context.WithoutCancel(ctx))) }()
	if err := c.openLedger(ctx); err != nil {
		return kgs.Accounts{}, err
	}
	evidence := kgs.Evidence{Space: c.space, Books: c.ledger.Books, Links: c.linked}
	if c.RedisURL != "" {
		client, err := kgs.OpenRedis(c.RedisURL)
		if err != nil {
			return kgs.Accounts{}, err
		}
		c.life.onStop("redis", func(context.Context) error { return client.Close() })
		pool := c.redisPool(client, c.holder)
		evidence.Pool = pool.Snapshot
		evidence.Epoch = func(ctx context.Context) (int64, error) {
			status, err := pool.Status(ctx)
			return status.Epoch, err
		}
	}
	return kgs.Audit(ctx, evidence)
}

// linked is the link store as the audit of keys sees it.
func (c *core) linked(ctx context.Context) iter.Seq2[kgs.Linked, error] {
	return func(yield func(kgs.Linked, error) bool) {
		for link, err := range c.store.All(ctx) {
			if !yield(kgs.Linked{Code: link.Code, Source: link.Source}, err) {
				return
			}
		}
	}
}

func printAccounts(w io.Writer, a kgs.Accounts, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			kgs.Accounts
			Closes bool `json:"closes"`
		}{a, len(a.Faults) == 0})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int64) { _, _ = fmt.Fprintf(t, "%d\t %s\n", n, name) } // Flush has the error
	row("reserved", a.Reserved)
	row("in pool", a.InPool)
	row("in batches", a.InBatches)
	row("on their way to the pool", a.Shipping)
	row("on the move", a.OnTheMove)
	row("linked", a.Linked)
	for _, reason := range slices.Sorted(maps.Keys(a.Abandoned)) {
		row("abandoned: "+reason, a.Abandoned[reason])
	}
	for _, source := range slices.Sorted(maps.Keys(a.Links)) {
		row("links from "+source, a.Links[source])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printVerdict(w, a)
}

func printVerdict(w io.Writer, a kgs.Accounts) error {
	if len(a.Faults) == 0 {
		_, err := fmt.Fprintln(w, "The accounts close.")
		return err
	}
	text := fmt.Sprintf("The accounts do not close, by %d keys:\n", len(a.Faults))
	for _, f := range a.Faults[:min(len(a.Faults), shownFaults)] {
		text += fmt.Sprintf("  %s\n", f)
	}
	if more := len(a.Faults) - shownFaults; more > 0 {
		text += fmt.Sprintf("  and %d more (--json names all)\n", more)
	}
	_, err := io.WriteString(w, text)
	return err
}
