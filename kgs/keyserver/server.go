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
	clients   []*client
	metrics   *metrics
	outageLog *rate.Sometimes // limits how many lines the server logs during an outage
}

var _ kgsv1connect.KeyServiceHandler = (*server)(nil)

// TakeKeys leases keys. If the server crashes before the commit of the ledger, there is no lease. If the server crashes
// later, a repetition of the request gets the same lease. The allowance of a client is the number of keys that it may
// take now. The allowance grows at the rate of the client. TakeKeys deducts the requested number of keys from the
// allowance in advance, so that concurrent requests cannot exceed the rate. If the client gets no new keys, TakeKeys
// gives the requested number back to the allowance.
func (s *server) TakeKeys(ctx context.Context, r *kgsv1.TakeKeysRequest) (*kgsv1.TakeKeysResponse, error) {
	if id := r.GetRequestId(); id == "" || len(id) > 128 || strings.ContainsFunc(id, hidden) {
		return nil, invalid("request_id must have 1 to 128 visible ASCII characters")
	}
	if r.GetCount() < 1 || r.GetCount() > MaxCount {
		return nil, invalid("count must be 1 to " + strconv.Itoa(MaxCount))
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
	ended, err := s.Ledger.EndLease(ctx, clientOf(ctx).name, r.GetLeaseId(), unused, lost)
	if err != nil {
		return nil, s.clientError(ctx, err)
	}
	s.Metrics.CountAbandoned(kgs.ReasonClient, ended.Kept)
	s.Metrics.CountAbandoned(kgs.ReasonLostReply, ended.Lost)
	return &kgsv1.ReturnKeysResponse{}, nil
}

// noCodes returns the error for a field with invalid codes. It does not wrap the error of
// Space.Ranges, because that error quotes a code that the client sent. Such a code may be long.
func noCodes(field string) error {
	return invalid(fmt.Sprintf("%s must contain codes of %d to %d characters 0-9, A-Z, a-z, and no code twice",
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

// errorReply maps an error to the reply to a client.
type errorReply struct {
	err  error
	code connect.Code
	says string
}

func errorReplies() []errorReply {
	return []errorReply{
		{ledger.ErrLeaseReturned, connect.CodeFailedPrecondition, "the lease of this request was returned; use a new request id"},
		{ledger.ErrLeaseExpired, connect.CodeFailedPrecondition, "the lease has expired, and the client keeps its keys; use a new request id for more keys"},
		{ledger.ErrNoLease, connect.CodeNotFound, "this client has no such lease"},
		{ledger.ErrNotOfLease, connect.CodeInvalidArgument, "a key does not belong to this lease or occurs twice"},
		{kgs.ErrExhausted, connect.CodeResourceExhausted, "every code is used up"},
		{context.Canceled, connect.CodeCanceled, "the client cancelled the request"},
		{context.DeadlineExceeded, connect.CodeDeadlineExceeded, "the request took too long; repeat the same request"},
	}
}

// outageRetry is how long a client must wait before it retries when the database does not answer.
const outageRetry = time.Second

// clientError converts an error of the ledger into the error for a client. If errorReplies does not
// contain err, clientError treats err as a failure of the database: it logs err, at most once a minute,
// and returns an error that says when to retry.
func (s *server) clientError(ctx context.Context, err error) error {
	for _, a := range errorReplies() {
		if errors.Is(err, a.err) {
			return connect.NewError(a.code, errors.New(a.says))
		}
	}
	s.outageLog.Do(func() {
		s.Logger.WarnContext(ctx, "could not serve a request of the key service", slog.String("client", clientOf(ctx).name), slog.Any("error", err))
	})
	return later(connect.CodeUnavailable, "the key service cannot use its ledger now; repeat the same request", outageRetry)
}

// invalid returns the error for a request that cannot succeed, however often the client repeats it.
func invalid(says string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(says))
}
