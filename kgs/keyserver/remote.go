package keyserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"keypool/kgs"
	"keypool/kgs/keyserver/kgsv1"
	"keypool/kgs/keyserver/kgsv1/kgsv1connect"
)

// RemoteSupply takes its batches from a key service. An answer that is lost loses no keys:
// the next Take gets the very same ones, however many it asks for.
type RemoteSupply struct {
	service kgsv1connect.KeyServiceClient
	http    *http.Client

	mu         sync.Mutex
	unanswered []string // ids of requests whose keys may be waiting; as many as takes were ever under way at once
}

var _ kgs.Supply = (*RemoteSupply)(nil)

// NewRemoteSupply makes a supply of the service at http://client:token@host[:port][/path],
// or https. It connects when it is first used. The error tells no token.
func NewRemoteSupply(address string) (*RemoteSupply, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the key service is no URL") // err would show it
	}
	token, ok := u.User.Password()
	if !ok || token == "" {
		return nil, errors.New("the address of the key service has no token in it")
	}
	base := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	s := &RemoteSupply{http: &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for u alone
	}}
	s.service = kgsv1connect.NewKeyServiceClient(s.http, base.String(), connect.WithReadMaxBytes(maxAnswer),
		connect.WithAcceptCompression("gzip", nil, nil), // there is little in random codes to compress
		connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				req.Header().Set("Authorization", "Bearer "+token)
				return next(ctx, req)
			}
		})))
	return s, nil
}

// closeTimeout bounds the wait for a service while a program stops.
const closeTimeout = 2 * time.Second

// Close hands back what was in answers that were lost, and closes the connections. It is
// called after the last batch is settled, and blocks until the service has answered, for
// closeTimeout at the most. What could not be handed back is written off when it expires.
func (s *RemoteSupply) Close(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for {
		request, old := s.nextRequest()
		if !old {
			return nil
		}
		answer, err := s.again(ctx, request)
		_, busy := retryAfter(err)
		switch code := connect.CodeOf(err); {
		case err == nil:
		case code == connect.CodeFailedPrecondition, code == connect.CodeResourceExhausted && !busy:
			continue // its lease is over, or there was nothing to lend
		default:
			return failed(ctx, "close", err)
		}
		if err := s.Settle(ctx, &kgs.Batch{ID: answer.GetLeaseId()}, answer.GetCodes(), nil); err != nil {
			return err
		}
	}
}

// again asks for the keys of an old request, and once more whenever the service says when,
// if ctx, which has a deadline, lasts until then.
func (s *RemoteSupply) again(ctx context.Context, request string) (*kgsv1.TakeKeysResponse, error) {
	deadline, _ := ctx.Deadline()
	for {
		answer, err := s.service.TakeKeys(ctx, &kgsv1.TakeKeysRequest{RequestId: request, Count: 1})
		wait, told := retryAfter(err)
		if !told || time.Until(deadline) < wait {
			return answer, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// retryAfter is how long the service wants to be left alone, where err tells.
func retryAfter(err error) (wait time.Duration, told bool) {
	refusal, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return 0, false
	}
	seconds, err := strconv.Atoi(refusal.Meta().Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil
}

// Take leases up to n keys, MaxCount at the most. It fails with ErrEmpty also when this client
// takes more than it may.
func (s *RemoteSupply) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	for {
		request, old := s.nextRequest()
		answer, err := s.service.TakeKeys(ctx, &kgsv1.TakeKeysRequest{RequestId: request, Count: int32(min(n, MaxCount))})
		if err == nil {
			return &kgs.Batch{ID: answer.GetLeaseId(), Source: kgs.SourceKGS, Codes: answer.GetCodes()}, nil
		}
		if old && connect.CodeOf(err) == connect.CodeFailedPrecondition {
			continue // its lease is over
		}
		s.mu.Lock()
		s.unanswered = append(s.unanswered, request)
		s.mu.Unlock()
		return nil, failed(ctx, "take", err)
	}
}

// nextRequest is the id of an old request, which may have keys waiting, or else a new one.
func (s *RemoteSupply) nextRequest() (request string, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unanswered) == 0 {
		return rand.Text(), false
	}
	request = s.unanswered[0]
	s.unanswered = slices.Delete(s.unanswered, 0, 1)
	return request, true
}

// Settle returns what is left of the lease. One that is over is settled: its keys are
// written off as this client's.
func (s *RemoteSupply) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	_, err := s.service.ReturnKeys(ctx, &kgsv1.ReturnKeysRequest{LeaseId: b.ID, Unused: unused, Lost: lost})
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition, connect.CodeNotFound:
		return nil
	}
	return failed(ctx, "return", err)
}

// failed is err as a supply tells it; nil for none.
func failed(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case connect.CodeOf(err) == connect.CodeResourceExhausted:
		return fmt.Errorf("key service: %s: %w: %w", op, kgs.ErrEmpty, err)
	case ctx.Err() != nil:
		return fmt.Errorf("key service: %s: %w: %w", op, ctx.Err(), err)
	}
	return fmt.Errorf("key service: %s: %w", op, err)
}
