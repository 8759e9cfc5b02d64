package keyserver

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
)

// crowded is how long a client with too many requests under way is told to wait.
const crowded = time.Second

// around bounds a request in time and number, and counts how it was answered.
func (s *server) around(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		answer, err := s.inTurn(ctx, req, next)
		code := "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
		}
		s.metrics.answered(req.Spec(), code)
		return answer, err
	}
}

func (s *server) inTurn(ctx context.Context, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	c := clientOf(ctx)
	select {
	case c.underWay <- struct{}{}:
		defer func() { <-c.underWay }()
	default:
		return nil, later(connect.CodeResourceExhausted, "too many requests of this client are under way", crowded)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return next(ctx, req)
}

// pay takes n keys off what the client may have, or nothing, and tells when it may.
func (c *client) pay(n int) error {
	now := time.Now()
	if c.limiter.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - c.limiter.TokensAt(now) // none, if one was paid back just now
	wait := time.Duration(missing / float64(c.limiter.Limit()) * float64(time.Second))
	return later(connect.CodeResourceExhausted, "this client takes too many keys a second", max(wait, 0))
}

// payBack undoes pay. To reserve a negative number adds it, whatever others do meanwhile; to
// cancel a reservation would not, for its time has come.
func (c *client) payBack(n int) { c.limiter.ReserveN(time.Now(), -n) }

// later is an error that says when to try again: as Retry-After in whole seconds, in the
// header or, with gRPC, the trailer, and exactly as a google.rpc.RetryInfo.
func later(code connect.Code, why string, wait time.Duration) error {
	err := connect.NewError(code, errors.New(why))
	err.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	if detail, derr := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); derr == nil {
		err.AddDetail(detail)
	}
	return err
}
