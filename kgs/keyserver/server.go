package keyserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/timestamppb"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keyserver/kgsv1"
	"keypool/kgs/keyserver/kgsv1/kgsv1connect"
	"keypool/kgs/ledger"
)

// server implements the key service.
type server struct {
	Config
	clients []*client
	metrics *metrics
	outage  *rate.Sometimes // limits the log during an outage, instead of one line per request
}

var _ kgsv1connect.KeyServiceHandler = (*server)(nil)

// TakeKeys leases keys. A crash before the ledger has the lease leaves nothing behind. After a
// later crash, the repeated request gets the same lease. The client pays in advance, so that
// concurrent requests cannot exceed its rate. It is paid back if it gets no new keys.
func (s *server) TakeKeys(ctx context.Context, r *kgsv1.TakeKeysRequest) (*kgsv1.TakeKeysResponse, error) {
	if id := r.GetRequestId(); id == "" || len(id) > 128 || strings.ContainsFunc(id, hidden) {
		return nil, invalid("request_id takes 1 to 128 visible ASCII characters")
	}
	if r.GetCount() < 1 || r.GetCount() > MaxCount {
		return nil, invalid("count takes 1 to " + strconv.Itoa(MaxCount))
	}
	c := clientOf(ctx)
	if err := c.pay(int(r.GetCount())); err != nil {
		return nil, err
	}
	lease, err := s.Ledger.Lend(ctx, ledger.LeaseRequest{
		Client: c.name, ID: r.GetRequestId(), Length: s.Length, Count: int64(r.GetCount()), Term: s.Term,
	})
	if err != nil || lease.Repeated {
		c.payBack(int(r.GetCount()))
	}
	if err != nil {
		return nil, s.clientError(ctx, err)
	}
	answer := &kgsv1.TakeKeysResponse{LeaseId: lease.ID, ExpiresAt: timestamppb.New(lease.Expires)}
	for _, numbers := range lease.Ranges {
		answer.Codes = append(answer.Codes, s.Space.Codes(numbers)...)
	}
	s.metrics.handedOut(c, len(answer.GetCodes()))
	return answer, nil
}

func hidden(r rune) bool { return r <= ' ' || r > '~' }

// ReturnKeys ends a lease.
func (s *server) ReturnKeys(ctx context.Context, r *kgsv1.ReturnKeysRequest) (*kgsv1.ReturnKeysResponse, error) {
	if len(r.GetUnused())+len(r.GetLost()) > MaxCount {
		return nil, invalid("no lease has more than " + strconv.Itoa(MaxCount) + " keys")
	}
	unused, err := s.Space.Ranges(r.GetUnused())
	if err != nil {
		return nil, noCodes("unused")
	}
	lost, err := s.Space.Ranges(r.GetLost())
	if err != nil {
		return nil, noCodes("lost")
	}
	kept, err := s.Ledger.EndLease(ctx, clientOf(ctx).name, r.GetLeaseId(), unused, lost)
	if err != nil {
		return nil, s.clientError(ctx, err)
	}
	s.Metrics.CountKept(kept)
	return &kgsv1.ReturnKeysResponse{}, nil
}

// noCodes returns the error for a field with invalid codes. It does not wrap the error of
// Space.Ranges, which quotes a code of any length that the client sent.
func noCodes(field string) error {
	return invalid(fmt.Sprintf("%s takes codes of %d to %d characters 0-9, A-Z, a-z, each of them once",
		field, codespace.MinLength, codespace.MaxLength))
}

// Status reads the ledger's counters.
func (s *server) Status(ctx context.Context, _ *kgsv1.StatusRequest) (*kgsv1.StatusResponse, error) {
	counters, err := s.Ledger.Counters(ctx)
	if err != nil {
		return nil, s.clientError(ctx, err)
	}
	space := counters.Current(s.Length)
	return &kgsv1.StatusResponse{
		SpaceLength: int32(space.Length), SpaceUsedRatio: space.UsedRatio(), SpaceLeft: space.Size - space.Next,
		KeysReserved: counters.Reserved(),
	}, nil
}

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
