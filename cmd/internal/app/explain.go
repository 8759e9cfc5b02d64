package app

import (
	"context"
	"errors"

	"keypool/kgs/explain"
	"keypool/kgs/keysource"
	"keypool/kgs/pgpool"
)

// Explain explains a code of a link, or a code that no link has if link is nil. It changes nothing. OpenOffline must have
// opened the Core, and Identify its code space.
func (c *Core) Explain(ctx context.Context, code string, link *explain.Link) (explain.Explanation, error) {
	snapshot, err := c.ledger.Snapshot(ctx)
	if err != nil {
		return explain.Explanation{}, err
	}
	e := explain.Evidence{Code: code, Space: c.Space, Ledger: snapshot, Link: link}
	if fields, ok := keysource.ParseSnowflake(code); ok {
		ids := c.machineIDs()
		machine, err := ids.Machine(ctx, fields.Machine)
		if err := errors.Join(err, ids.Close()); err != nil {
			return explain.Explanation{}, err
		}
		e.Machine = &machine
	}
	if c.ledgerDB != nil {
		if e.Pool, err = pgpool.Find(ctx, c.ledgerDB, code); err != nil {
			return explain.Explanation{}, err
		}
	}
	return explain.Explain(e), nil
}
