package keyserver

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retryWhenCrowded is how long a client with too many requests in progress must wait before it retries.
const retryWhenCrowded = time.Second

// around limits the time of a request, and counts each reply by its status code.
func (s *server) around(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		defer turnOf(ctx).endWork()
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		code := connect.CodeInternal.String() // counted if next panics
		defer func() { turnOf(ctx).count(code) }()
		answer, err := next(ctx, req)
		code = "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
		}
		return answer, err
	}
}

// turn counts one request against the limits of its client. A client may have at most maxUnderWay requests in progress.
// A request is in progress until the server begins to send the answer, because the client may send its next request as
// soon as it has the answer. A client may have at most 2*maxUnderWay requests that are in progress or whose answers are
// being sent. Only the goroutine of a request uses the turn of the request.
type turn struct {
	client     *client      // nil before the turn begins and after it ends
	inProgress bool         // whether the request is in progress
	large      bool         // whether the request has a large message
	refuse     func() error // returns and counts the error for too many requests

	answered func(code string) // counts the reply to the request; nil before the gate knows the client and after the reply is counted
}

// turnKey is the context key of a request's turn.
type turnKey struct{}

func turnOf(ctx context.Context) *turn { return ctx.Value(turnKey{}).(*turn) }

// withTurns gives each request a turn. The method gate begins the turn. The turn ends when next returns, even if the
// message of the request is malformed or does not arrive.
func withTurns(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := new(turn)
		defer t.end()
		r = r.WithContext(context.WithValue(r.Context(), turnKey{}, t))
		r.Body = &message{ReadCloser: r.Body, turn: t}
		next.ServeHTTP(w, r)
	})
}

// message is the body of a request. As soon as more than largeMessage bytes have arrived, the message counts as large.
// If the client already has maxLarge requests with large messages, Read waits until one of these requests ends. If none
// of them ends within largeWait, Read fails. The wait is short, because the data of a waiting request occupies the
// receive buffer of its HTTP/2 connection, and so stops the other requests of this connection.
type message struct {
	io.ReadCloser
	turn *turn
	size int64
}

// Read implements [io.Reader].
func (m *message) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.size += int64(n)
	if t := m.turn; t.client != nil && m.size > largeMessage && !t.large {
		select {
		case t.client.large <- struct{}{}:
			t.large = true
		case <-time.After(largeWait):
			return 0, t.refuse()
		}
	}
	return n, err
}

// begin counts the request against the limits of c. If c has reached a limit, begin counts nothing and returns false.
func (t *turn) begin(c *client) bool {
	if !occupy(c.open) {
		return false
	}
	if !occupy(c.underWay) {
		<-c.open
		return false
	}
	t.client, t.inProgress = c, true
	return true
}

func occupy(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// count counts the reply to the request if the reply is not counted yet.
func (t *turn) count(code string) {
	if t.answered != nil {
		t.answered(code)
		t.answered = nil
	}
}

// endWork records that the answer of the request is known and can be sent.
func (t *turn) endWork() {
	if t.inProgress {
		<-t.client.underWay
		t.inProgress = false
	}
}

// unread is the code under which the metrics count a request whose message is malformed, too large or did not arrive. The
// handler of such a request does not run, so the code of its reply is not known.
const unread = "unread"

// end ends the turn, so that the request no longer counts against the limits of its client. If the reply to the request
// is not counted yet, end counts it under the code unread. It does nothing if the turn has not begun.
func (t *turn) end() {
	t.count(unread)
	t.endWork()
	if t.large {
		<-t.client.large
		t.large = false
	}
	if t.client != nil {
		<-t.client.open
		t.client = nil
	}
}

// pay deducts n keys from the client's allowance. If the allowance is too small, pay deducts
// nothing and returns an error that says when to retry.
func (c *client) pay(n int) error {
	now := time.Now()
	if c.limiter.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - c.limiter.TokensAt(now) // negative if another goroutine has just called payBack
	wait := time.Duration(missing / float64(c.limiter.Limit()) * float64(time.Second))
	return later(connect.CodeResourceExhausted, "this client exceeds its rate of keys per second", max(wait, 0))
}

// payBack adds n keys to the client's allowance, even if other goroutines call pay at the same time. A rate.Limiter has
// no method that gives keys back at once: it can cancel a reservation only before the time for which the reservation was
// made, but pay takes keys for the present time. Therefore payBack reserves a negative number of keys.
func (c *client) payBack(n int) { c.limiter.ReserveN(time.Now(), -n) }

// later returns an error that says when to retry. Retry-After in the header contains the delay in
// whole seconds; gRPC sends it in the trailer. A google.rpc.RetryInfo contains the exact delay.
func later(code connect.Code, why string, wait time.Duration) error {
	err := connect.NewError(code, errors.New(why))
	err.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	if detail, derr := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); derr == nil {
		err.AddDetail(detail)
	}
	return err
}
