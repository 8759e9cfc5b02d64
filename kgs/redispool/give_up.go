package redispool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Other workers take over the range of a dead worker, but not the range of a live worker. Therefore a live worker gives
// its range up if its pushes fail for giveUpAfter. The worker then reserves no range for restTime, so that another
// worker takes the range over. The alarm for refused pushes lasts for alarmTime after the last refused push. restTime is
// shorter than alarmTime, so that the alarm still lasts when the worker pushes again.
const (
	giveUpAfter = time.Minute
	restTime    = 45 * time.Second
)

// errRests means that the filler gave a range up and that restTime has not passed yet.
var errRests = errors.New("the pushes of this worker failed for a minute: the worker gave up its range, and waits before it reserves another range")

// mayGiveUp gives the current range up if its pushes have failed for giveUpAfter. Fill calls mayGiveUp after a failed
// push. progress is true if Redis accepted a part of the range before the failure.
func (f *Filler) mayGiveUp(progress bool) error {
	switch {
	case f.current == nil:
		return nil
	case progress || f.failing.IsZero():
		f.failing = time.Now()
		return nil
	case time.Since(f.failing) < giveUpAfter:
		return nil
	}
	// The context of the push may have ended, so giveUp gets its own context.
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return f.giveUp(ctx)
}

// giveUp removes the name of this filler from the ledger, so that another worker can adopt the current range. The
// filler then uses another name. If no worker adopts the range within restTime, this filler may adopt it under the new
// name. A push of the filler may still arrive late. The mark of the range then prevents a second push of a number.
func (f *Filler) giveUp(ctx context.Context) error {
	if err := f.ledger.Release(ctx, f.cfg.Holder); err != nil {
		return fmt.Errorf("give up range %d: %w", f.current.ID, err)
	}
	f.cfg.Logger.Warn("gave a range up because its pushes fail", slog.Int64("range", f.current.ID), slog.Int64("next_number", f.next))
	f.cfg.Holder = nextName(f.cfg.Holder)
	f.current, f.failing, f.renewed, f.rests = nil, time.Time{}, time.Time{}, time.Now().Add(restTime)
	return nil
}

// nextName returns the holder name that follows name. For example, "a.2" follows "a", and "a.3"
// follows "a.2". Only a number after the last dot counts, because a host name may contain dots.
func nextName(name string) string {
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		if n, err := strconv.Atoi(name[dot+1:]); err == nil {
			return fmt.Sprintf("%s.%d", name[:dot], n+1)
		}
	}
	return name + ".2"
}
