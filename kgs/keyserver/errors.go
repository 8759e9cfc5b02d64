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

// answer maps an error to the reply to a client.
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

// outage is the delay before a client may retry when the database does not answer.
const outage = time.Second

// clientError converts an error of the ledger into the error for a client. It logs any error that is
// not in the table as a database failure. The client may retry in that case.
func (s *server) clientError(ctx context.Context, err error) error {
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

// invalid returns the error for a request that no server could accept.
func invalid(says string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(says))
}
