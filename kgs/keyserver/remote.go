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
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keyserver/kgsv1"
	"keypool/kgs/keyserver/kgsv1/kgsv1connect"
)

// RemoteSupply takes its batches from a key service. If a reply is lost, the next Take repeats the
// request and gets the same keys.
type RemoteSupply struct {
	service      kgsv1connect.KeyServiceClient
	http         *http.Client
	closeTimeout time.Duration    // the constant closeTimeout, except in tests
	space        *codespace.Space // checks the codes of answers

	kept atomic.Int64 // unused keys whose lease had ended; see Kept

	mu         sync.Mutex
	unanswered []string // ids of failed requests, which may have a lease; at most one for each concurrent Take
}

var _ kgs.Supply = (*RemoteSupply)(nil)

// NewRemoteSupply returns a supply for the service at
// http[s]://client:token@host[:port][/path]. It connects at the first use, without a proxy. The error never
// contains the token.
func NewRemoteSupply(address string) (*RemoteSupply, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the key service is not a URL") // err contains the token
	}
	token, ok := u.User.Password()
	if !ok || token == "" {
		return nil, errors.New("the address of the key service contains no token")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // a proxy that the environment names must not get the token
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin}
	base := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	s := &RemoteSupply{closeTimeout: closeTimeout, space: codespace.Plain(), http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // another server must not get the token
	}}
	s.service = kgsv1connect.NewKeyServiceClient(s.http, base.String(), connect.WithReadMaxBytes(maxAnswer),
		connect.WithAcceptCompression("gzip", nil, nil), // random codes hardly compress
		connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				req.Header().Set("Authorization", "Bearer "+token)
				return next(ctx, req)
			}
		})))
	return s, nil
}

// HTTP/2 sends all requests on one connection. If the other end does not answer, TCP may take minutes to close the
// connection. Therefore RemoteSupply sends a ping if no frame has arrived for pingAfter. If the answer to the ping does
// not arrive within pongWithin, the connection is closed, and the next request opens another connection.
const (
	pingAfter  = 3 * time.Second
	pongWithin = 2 * time.Second
)

// closeTimeout limits the wait for the service while a program stops.
const closeTimeout = 2 * time.Second

// Close returns the keys of lost replies to the service and closes the connections. Call Close
// after the last batch is settled. It blocks until the service has replied, but at most for
// closeTimeout. If Close cannot return the keys, the service abandons them when their lease
// expires.
func (s *RemoteSupply) Close(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, s.closeTimeout)
	defer cancel()
	for {
		request, old := s.nextRequest()
		if !old {
			return nil
		}
		var answer *kgsv1.TakeKeysResponse
		err := retryOnLimit(ctx, func() (err error) {
			answer, err = s.service.TakeKeys(ctx, &kgsv1.TakeKeysRequest{RequestId: request, Count: 1})
			return err
		})
		_, busy := retryAfter(err)
		switch code := connect.CodeOf(err); {
		case err == nil:
		case code == connect.CodeFailedPrecondition, code == connect.CodeResourceExhausted && !busy:
			continue // the lease has ended, or there was no key to lease
		default:
			return supplyError(ctx, "close", err)
		}
		if s.check(answer.GetCodes()) != nil {
			continue // the service abandons the keys when their lease expires
		}
		if err := s.Settle(ctx, &kgs.Batch{ID: answer.GetLeaseId()}, answer.GetCodes(), nil); err != nil {
			return err
		}
	}
}

// retryOnLimit runs call, which sends a request to the service. If the service refuses the request because of a limit,
// retryOnLimit waits as long as the service demands, and repeats the call. If ctx has no deadline, or would end during
// this delay, retryOnLimit returns the error of the service at once.
func retryOnLimit(ctx context.Context, call func() error) error {
	deadline, _ := ctx.Deadline()
	for {
		err := call()
		wait, asked := retryAfter(err)
		if !asked || connect.CodeOf(err) != connect.CodeResourceExhausted || time.Until(deadline) < wait {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retryAfter returns the delay that the service requests in err. If err requests no delay, asked is
// false.
func retryAfter(err error) (wait time.Duration, asked bool) {
	refusal, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return 0, false
	}
	seconds, err := strconv.Atoi(refusal.Meta().Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil
}

// check fails if codes is empty or contains a string that cannot be a code.
func (s *RemoteSupply) check(codes []string) error {
	if len(codes) == 0 {
		return fmt.Errorf("%w: it has no codes", errInvalidAnswer)
	}
	if i := slices.IndexFunc(codes, func(code string) bool { return !s.space.IsCode(code) }); i >= 0 {
		return fmt.Errorf("%w: %.40q is not a code", errInvalidAnswer, codes[i])
	}
	return nil
}

// errInvalidAnswer reports that an answer does not come from a key service of Keypool, or was changed on the way.
var errInvalidAnswer = errors.New("the answer is not valid")

// Take leases up to n keys, but at most MaxCount. If it repeats the request of a lost reply, it returns the
// keys of this request, whatever n is. It fails with ErrEmpty if this client exceeds its rate or has too many
// requests in progress. It also fails if the answer contains no codes, or a string that cannot be a code. In
// this case, it uses no key of the answer. After any error, a later Take repeats the request.
func (s *RemoteSupply) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	for {
		request, old := s.nextRequest()
		answer, err := s.service.TakeKeys(ctx, &kgsv1.TakeKeysRequest{RequestId: request, Count: int32(min(n, MaxCount))})
		if err == nil {
			err = s.check(answer.GetCodes())
		}
		if err == nil {
			return &kgs.Batch{ID: answer.GetLeaseId(), Source: kgs.SourceKGS, Codes: answer.GetCodes()}, nil
		}
		if old && connect.CodeOf(err) == connect.CodeFailedPrecondition {
			continue // the lease of the old request has ended
		}
		s.mu.Lock()
		s.unanswered = append(s.unanswered, request)
		s.mu.Unlock()
		return nil, supplyError(ctx, "take", err)
	}
}

// nextRequest removes an id from unanswered and returns it. old is then true. If unanswered is
// empty, nextRequest returns a new id.
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

// Settle returns the unused keys of a lease. If the lease has ended, Settle returns nil: the service
// has already recorded that this client keeps the keys.
func (s *RemoteSupply) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	err := retryOnLimit(ctx, func() error {
		_, err := s.service.ReturnKeys(ctx, &kgsv1.ReturnKeysRequest{LeaseId: b.ID, Unused: unused, Lost: lost})
		return err
	})
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition, connect.CodeNotFound:
		s.kept.Add(int64(len(unused)))
		return nil
	}
	return supplyError(ctx, "return", err)
}

// Kept returns the number of unused keys that Settle could not return because their lease had ended. It is safe for
// concurrent use.
func (s *RemoteSupply) Kept() int64 { return s.kept.Load() }

// supplyError converts an error of the service into an error of a supply, such as kgs.ErrEmpty. It
// returns nil if err is nil.
func supplyError(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case connect.CodeOf(err) == connect.CodeResourceExhausted:
		reason := kgs.ErrExhausted
		if _, busy := retryAfter(err); busy {
			reason = kgs.ErrEmpty
		}
		return fmt.Errorf("key service: %s: %w: %w", op, reason, err)
	case ctx.Err() != nil:
		return fmt.Errorf("key service: %s: %w: %w", op, ctx.Err(), err)
	}
	return fmt.Errorf("key service: %s: %w", op, err)
}
