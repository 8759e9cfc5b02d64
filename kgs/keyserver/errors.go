package keyserver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	"keypool/kgs"
	"keypool/kgs/ledger"
)

// answer is what a client is told of an error.
type answer struct {
	err  error
	code connect.Code
	says string
}

func answers() []answer {
	return []answer{
		{ledger.ErrLeaseReturned, connect.CodeFailedPrecondition, "the lease of this request was returned: take keys by a new request id"},
		{ledger.ErrLeaseExpired, connect.CodeFailedPrecondition, "the lease has expired: its keys stay the client's, and new ones take a new request id"},
		{ledger.ErrNoLease, connect.CodeNotFound, "this client has no such lease"},
		{ledger.ErrNotOfLease, connect.CodeInvalidArgument, "a key is not of this lease, or is named twice"},
		{kgs.ErrExhausted, connect.CodeResourceExhausted, "every code is used up"},
		{context.Canceled, connect.CodeCanceled, "the client has gone"},
		{context.DeadlineExceeded, connect.CodeDeadlineExceeded, "it took too long; repeat the very same request"},
	}
}

// outage is how long a client is told to wait when the database does not answer.
const outage = time.Second

// told turns an error of the ledger into one for a client. What is in no line of the table
// is the database's: that is for the log, and the client may try again.
func (s *server) told(ctx context.Context, err error) error {
	for _, a := range answers() {
		if errors.Is(err, a.err) {
			return connect.NewError(a.code, errors.New(a.says))
		}
	}
	s.outage.Do(func() {
		s.Logger.WarnContext(ctx, "keys cannot be served", slog.String("client", clientOf(ctx).name), slog.Any("error", err))
	})
	return later(connect.CodeUnavailable, "the ledger does not answer; repeat the very same request", outage)
}

// invalid is the error of a request that no server could answer.
func invalid(says string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(says))
}
