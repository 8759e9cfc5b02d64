// Package keyserver serves the keys of a ledger to other programs, over gRPC, gRPC-Web and plain
// HTTP with JSON. The definition of the service is proto/keypool/kgs/v1/kgs.proto. The package
// also contains [RemoteSupply], a client that takes keys from such a server.
//
// Invariants:
//
//   - A key is leased once. It can be leased again only after a client has returned it as unused.
//   - A request gets at most one lease, even if replies are lost, servers crash, the client repeats the
//     request, or several servers use the same ledger.
//   - A server keeps no state except the counts for its limits: the keys that a client takes per
//     second, and the requests that a client has in progress. Each server counts separately. So a
//     reply depends only on the ledger and on these counts.
//
// Vocabulary: a client is a program that has a token. A request is a call of TakeKeys with an id
// that the client chooses. A lease is the set of keys that a request got. A lease ends when the
// client returns it or when it expires.
package keyserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
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
	// defaultTerm is the default of Config.Term.
	defaultTerm = time.Hour
	// maxRequest is the size limit of a request in bytes. A request with MaxCount codes of the
	// greatest length fits.
	maxRequest = 2 << 20
	// maxQuestion is the size limit in bytes of a health or reflection request. These requests
	// need no token.
	maxQuestion = 4 << 10
	// maxAnswer is the size limit of a reply in bytes. A reply with MaxCount codes of the greatest
	// length fits.
	maxAnswer = 2 << 20
	// requestTimeout is the time limit of one request, including its change of the ledger.
	requestTimeout = 10 * time.Second
)

// Reflection adds the handlers of the gRPC reflection service to mux. The handlers describe the given services. Package
// reflection contains such a function.
type Reflection func(mux *http.ServeMux, services []string, options ...connect.HandlerOption)

// Config is the configuration of a server. All fields except Term and Reflection are required.
type Config struct {
	Ledger     *ledger.Ledger
	Space      *codespace.Space
	Length     int // minimum length of the codes
	Clients    []Client
	Rate       int64         // keys per second for each client; the burst is the larger of Rate and MaxCount
	Term       time.Duration // time from the beginning of a lease to its expiry; zero means one hour
	Ready      func() bool   // reports whether the server can serve keys; safe for concurrent use, must not block
	Logger     *slog.Logger
	Metrics    *kgs.Metrics
	Registerer prometheus.Registerer // receives the metrics of this server
	Reflection Reflection            // if nil, the server has no reflection service
}

// New returns the handler of all services: keys, health and reflection. Only the key service
// requires a token. For gRPC, the caller must serve HTTP/2. New panics if the Registerer already
// has the metrics of another server.
func New(cfg Config) http.Handler {
	if cfg.Term == 0 {
		cfg.Term = defaultTerm
	}
	s := &server{
		Config: cfg, clients: newClients(cfg.Clients, cfg.Rate), metrics: newMetrics(cfg),
		outageLog: &rate.Sometimes{Interval: time.Minute},
	}
	mux := http.NewServeMux()
	// Accept no compressed messages. connect would decompress a message to its end, even above the size limit.
	uncompressed := connect.WithCompression("gzip", nil, nil)
	path, keys := kgsv1connect.NewKeyServiceHandler(s, uncompressed,
		connect.WithRequestGate(s.gate), connect.WithInterceptors(connect.UnaryInterceptorFunc(s.around)),
		connect.WithReadMaxBytes(maxRequest))
	mux.Handle(path, withTurns(keys))
	small := connect.WithReadMaxBytes(maxQuestion)
	mux.Handle(grpchealth.NewHandler(health{cfg.Ready}, uncompressed, small))
	if cfg.Reflection != nil {
		cfg.Reflection(mux, []string{kgsv1connect.KeyServiceName, grpchealth.HealthV1ServiceName}, uncompressed, small)
	}
	return mux
}

// health reports whether the program can serve keys.
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
