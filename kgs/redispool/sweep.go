package redispool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"keypool/kgs"
)

// Sweep writes off the batches of dead holders, and the keys that were settled as lost. It
// returns how many keys belonged to dead holders.
//
// Sweep works in three steps. It moves a batch to the write-offs. It reports the codes to the
// ledger. Then it deletes the write-off from Redis. The holder may only have been frozen, but it
// cannot settle a batch that is in the write-offs. After a crash between two steps, the next Sweep
// of any process continues. The ledger counts a code that is reported twice only once.
func (p *Pool) Sweep(ctx context.Context) (abandoned int64, err error) {
	if err := p.withdraw(ctx); err != nil {
		return 0, fmt.Errorf("write off the batches of dead holders: %w", err)
	}
	for {
		entry, err := p.run(ctx, p.scripts.nextWriteOff).StringSlice()
		if err != nil || len(entry) == 0 {
			return abandoned, err
		}
		field, codes := entry[0], strings.Split(entry[1], " ")
		reason, _, _ := strings.Cut(field, "/")
		if err := p.abandon(ctx, codes, reason); err != nil {
			return abandoned, fmt.Errorf("write off batch %s: %w", field, err)
		}
		dropped, err := p.run(ctx, p.scripts.dropWriteOff, field).Int64()
		if err != nil {
			return abandoned, fmt.Errorf("delete the write-off of batch %s: %w", field, err)
		}
		if reason == kgs.ReasonCrash {
			abandoned += dropped * int64(len(codes)) // dropped is 0 if another process was faster
		}
	}
}

// withdraw moves the batches of dead holders to the write-offs. It reads the pool before the
// ledger. The ledger records a holder before the holder takes keys from the pool. So a holder that
// is not in the ledger is dead.
func (p *Pool) withdraw(ctx context.Context) error {
	fields, err := p.run(ctx, p.scripts.holders).StringSlice()
	if err != nil {
		return err
	}
	alive, err := p.cfg.Ledger.Holders(ctx)
	if err != nil {
		return err
	}
	args := []any{kgs.ReasonCrash}
	for _, field := range fields {
		holder, _, _ := strings.Cut(field, "/")
		if !slices.Contains(alive, holder) && !slices.Contains(args, any(holder)) {
			args = append(args, holder)
		}
	}
	if len(args) == 1 {
		return nil
	}
	return p.run(ctx, p.scripts.withdraw, args...).Err()
}

// abandon reports codes to the ledger. It leaves out strings that are no codes.
func (p *Pool) abandon(ctx context.Context, codes []string, reason string) error {
	codes, err := p.withoutInvalid(ctx, codes)
	if err != nil {
		return err
	}
	ranges, err := p.cfg.Space.Ranges(codes)
	if err != nil {
		return err
	}
	return p.cfg.Ledger.Abandon(ctx, ranges, reason)
}
