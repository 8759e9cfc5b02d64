package redispool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"keypool/kgs"
)

// Sweep writes off the batches of holders that are dead, and the keys that were settled
// as lost. It tells how many keys were of the dead. A batch is first moved out of its
// holder's access, should that one only have been frozen; then the ledger gets to know;
// then Redis forgets. A crash at any point leaves the rest to the next Sweep, of any
// process, and the ledger can be told twice.
func (p *Pool) Sweep(ctx context.Context) (abandoned int64, err error) {
	if err := p.withdraw(ctx); err != nil {
		return 0, fmt.Errorf("look for dead holders: %w", err)
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
			return abandoned, fmt.Errorf("drop batch %s: %w", field, err)
		}
		if reason == kgs.ReasonCrash {
			abandoned += dropped * int64(len(codes)) // none when another process was faster
		}
	}
}

// withdraw takes away what the dead have on record. The ledger is asked after the pool: who
// has something here was known there before, so whoever is not is dead.
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

func (p *Pool) abandon(ctx context.Context, codes []string, reason string) error {
	ranges, err := p.cfg.Space.Ranges(codes)
	if err != nil {
		return err
	}
	return p.cfg.Ledger.Abandon(ctx, ranges, reason)
}
