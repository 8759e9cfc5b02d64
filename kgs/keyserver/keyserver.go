// Package keyserver serves the keys of a ledger to other programs. One definition
// (proto/keypool/kgs/v1/kgs.proto) gives them gRPC, gRPC-Web and plain HTTP with JSON. The
// package also contains a client that takes keys from such a server, [RemoteSupply].
//
// Invariants:
//
//   - A key is in one lease only. The exception is a key that the lease's client returned as
//     unused: it may be in a later lease.
//   - A request gets one lease. This holds when replies are lost, servers crash or the client
//     repeats the request, on any of several servers with the same ledger.
//   - A server keeps no state: a reply depends only on the ledger. The exception is the rate
//     limit of the clients, which each server counts by itself.
//
// Vocabulary: a client is a program that has a token. A request is a call with an id that the
// client chooses. A lease is the set of keys that a request got. It ends when the client
// returns it or when it expires.
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
	// MaxCount is the largest number of keys in one request.
	MaxCount = 100_000
	// defaultTerm is the term of a lease.
	defaultTerm = time.Hour
	// maxRequest is the size limit of a request in bytes. MaxCount of the longest codes fit.
	maxRequest = 2 << 20
	// maxQuestion is the size limit in bytes of a health or reflection request. These need no
	// token.
	maxQuestion = 4 << 10
	// maxAnswer is the size limit of a reply in bytes. MaxCount of the longest codes fit.
	maxAnswer = 2 << 20
	// requestTimeout limits the time for one request. A change of the ledger may take that
	// long.
	requestTimeout = 10 * time.Second
)

// Config is the configuration of a server. All fields except Term are required.
type Config struct {
	Ledger     *ledger.Ledger
	Space      *codespace.Space
	Length     int // the minimum length of the codes
	Clients    []Client
	Rate       int64         // keys per second and client; the burst is the larger of Rate and MaxCount
	Term       time.Duration // of a lease; zero means one hour
	Ready      func() bool   // whether the server can serve keys now; must be safe for concurrent use and must not block
	Logger     *slog.Logger
	Metrics    *kgs.Metrics
	Registerer prometheus.Registerer // receives the metrics of this server
}

// New returns the handler of all services: keys, health and reflection. Only the key service
// requires a token. gRPC needs an HTTP/2 server. New panics if the Registerer already has the
// metrics of another server.
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

// health reports the health of the whole program, which has only one service.
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
