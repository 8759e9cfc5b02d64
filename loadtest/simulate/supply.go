package simulate

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"keypool/kgs"
)

// codeBytes is the length of a code in the model. The code is the number itself in binary form. The model does
// not permute numbers, because the permutation has no effect on the supply of keys.
const codeBytes = 8

// supply takes keys from the simulated Redis for one server.
type supply struct {
	redis   *redis
	caller  int
	epochs  map[int64]int64 // epoch of each batch that is not settled
	pending *kgs.Batch      // batch that Redis gave and that no call of Take has returned yet; nil if there is none
}

var _ kgs.Supply = (*supply)(nil)

// Take implements [kgs.Supply]. If the reply to the previous call of Take was late, Take returns the batch of that call.
func (s *supply) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	var refused error
	err := s.redis.call(ctx, s.caller, func() time.Duration {
		if refused = s.redis.refusal(); refused != nil && s.pending == nil {
			return callBusy
		}
		if s.pending == nil {
			s.redis.batches++
			s.pending = &kgs.Batch{ID: s.redis.batches, Source: kgs.SourcePool, Codes: codes(s.redis.take(int64(n)))}
			s.epochs[s.pending.ID] = s.redis.epoch
		}
		refused = nil
		return callBusy + time.Duration(len(s.pending.Codes))*takeBusy
	})
	if err := errors.Join(err, refused); err != nil {
		return nil, err
	}
	batch := s.pending
	s.pending = nil
	return batch, nil
}

// Settle implements [kgs.Supply]. If the epoch of the batch has ended, or if Redis has lost its data
// and no new epoch has begun, the unused keys are abandoned.
func (s *supply) Settle(ctx context.Context, b *kgs.Batch, unused, _ []string) error {
	return s.redis.call(ctx, s.caller, func() time.Duration {
		r, n := s.redis, int64(len(unused))
		if r.open && s.epochs[b.ID] == r.epoch {
			for _, code := range unused {
				r.add(keyRange{number(code), number(code) + 1})
			}
			r.returned += n
			r.inEpoch.Taken -= n
		} else {
			r.abandoned += n
		}
		delete(s.epochs, b.ID)
		return callBusy + time.Duration(n)*takeBusy
	})
}

// codes returns the codes of numbers.
func codes(ranges []keyRange) []string {
	var bytes []byte
	for _, s := range ranges {
		for n := s.lo; n < s.hi; n++ {
			bytes = binary.LittleEndian.AppendUint64(bytes, uint64(n))
		}
	}
	all, codes := string(bytes), make([]string, len(bytes)/codeBytes)
	for i := range codes {
		codes[i] = all[i*codeBytes : (i+1)*codeBytes]
	}
	return codes
}

// number returns the number of a code.
func number(code string) (n int64) {
	for i := range codeBytes {
		n |= int64(code[i]) << (8 * i)
	}
	return n
}
