package redispool

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keypool/kgs"
)

// Sweep abandons the batches of dead holders, and the keys that were settled as lost. It returns
// how many keys of dead holders it abandoned. Before that, it records the batches again that this
// holder took in an earlier epoch, so that the audit finds their keys.
//
// Sweep works in three steps. It moves a batch to the write-offs, so that a holder that was only
// frozen cannot settle the batch. It reports the codes to the ledger. Then it deletes the write-off
// from Redis. After a crash between two steps, the next Sweep of any process continues. It may
// report codes a second time, which the ledger ignores.
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

// withdraw moves the batches of dead holders to the write-offs. A holder is dead if it has a batch
// in the pool but is not in the ledger. This is certain because the ledger records a holder before
// the holder takes keys, and because withdraw reads the pool before the ledger.
func (p *Pool) withdraw(ctx context.Context) error {
	reply, err := p.run(ctx, p.scripts.holders).StringSlice()
	if err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return fmt.Errorf("the epoch %.40q: %w", reply[0], errReplyForm)
	}
	if err := p.recordAgain(ctx, epoch); err != nil {
		return err
	}
	fields := reply[1:]
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

// abandon reports codes to the ledger. It leaves out strings that cannot be codes.
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
