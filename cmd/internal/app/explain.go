package app

import (
	"context"
	"errors"

	"keypool/kgs/explain"
	"keypool/kgs/keysource"
	"keypool/kgs/pgpool"
)

// Explain explains a code. link is the link that has the code, or nil if no link has the code. Explain changes nothing. The
// caller gets the Core from OpenOffline and calls Identify first.
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
