// Package keyserver serves the keys of a ledger to other programs, over gRPC, gRPC-Web and
// plain HTTP with JSON from one definition (proto/keypool/kgs/v1/kgs.proto), and takes
// them from such a server: see [RemoteSupply].
//
// Vocabulary: a client is a program that has a token; a request is what the client calls
// by an id of its own; a lease is the keys that a request got, until the client returns
// them or the lease expires.
//
// Invariants:
//
//   - a key is in one lease only, unless the client of the first one returned it as unused;
//   - a request gets one lease, whatever is lost, killed or asked again, and whichever of
//     several servers on one ledger is asked;
//   - a server keeps nothing: all that an answer depends on is in the ledger. Only the
//     rates of clients are counted by each server for itself.
package keyserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keyserver/kgsv1/kgsv1connect"
	"keypool/kgs/ledger"
)

const (
	// MaxCount is how many keys one request can have.
	MaxCount = 100_000
	// defaultTerm is how long a lease lasts.
	defaultTerm = time.Hour
	// maxRequest is more bytes than it takes to return MaxCount of the longest codes.
	maxRequest = 2 << 20
	// maxQuestion is enough, in bytes, for health and reflection, which anybody may ask for.
	maxQuestion = 4 << 10
	// maxAnswer is more bytes than MaxCount of the longest codes take.
	maxAnswer = 2 << 20
	// requestTimeout bounds the work on a request. A change of the ledger may take as long.
	requestTimeout = 10 * time.Second
)

// Config is what a server is made of. Everything has to be there but for the Term.
type Config struct {
	Ledger     *ledger.Ledger
	Space      *codespace.Space
	Length     int // of the codes, at the least
	Clients    []Client
	Rate       int64         // keys a second that each client may take; they may come at once, or MaxCount if that is more
	Term       time.Duration // of a lease; zero for an hour
	Ready      func() bool   // whether keys can be served just now; called from any goroutine, and must not block
	Logger     *slog.Logger
	Metrics    *kgs.Metrics
	Registerer prometheus.Registerer // gets the metrics of this one server
}

// New makes the handler of all services: keys, health and reflection. Of these only the
// first asks for a token. gRPC needs a server that speaks HTTP/2. It panics when the
// Registerer has the metrics of another server already.
func New(cfg Config) http.Handler {
	if cfg.Term == 0 {
		cfg.Term = defaultTerm
	}
	s := &server{
		Config: cfg, clients: newClients(cfg.Clients, cfg.Rate), metrics: newMetrics(cfg),
		outage: &rate.Sometimes{Interval: time.Second},
	}
	mux := http.NewServeMux()
	mux.Handle(kgsv1connect.NewKeyServiceHandler(s,
		connect.WithRequestGate(s.gate), connect.WithInterceptors(connect.UnaryInterceptorFunc(s.around)),
		connect.WithReadMaxBytes(maxRequest)))
	small := connect.WithReadMaxBytes(maxQuestion)
	mux.Handle(grpchealth.NewHandler(health{cfg.Ready}, small))
	services := grpcreflect.NewStaticReflector(kgsv1connect.KeyServiceName, grpchealth.HealthV1ServiceName)
	mux.Handle(grpcreflect.NewHandlerV1(services, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(services, small))
	return mux
}

// health answers for the whole program, which has but one service.
type health struct{ ready func() bool }

// Check implements [grpchealth.Checker].
func (h health) Check(_ context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && r.Service != kgsv1connect.KeyServiceName {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such service"))
	}
	if !h.ready() {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
