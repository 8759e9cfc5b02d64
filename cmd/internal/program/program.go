// Package program starts, runs and stops a program with its listeners and background parts.
//
// [Start] opens the listeners, calls a function that opens the other parts, and returns the running
// [Program]. Stop closes all parts in the reverse of the order in which they were opened. Invariant:
// as soon as a part is open, the step that closes the part is registered, so that a failed start
// cleans up like an orderly stop.
package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"keypool/cmd/internal/config"
)

// StartTimeout is the time limit of a start. A start that takes longer fails, and the process
// supervisor tries again.
const StartTimeout = 30 * time.Second

// PublicGrace is the time that running requests on the public listener have to finish during an
// orderly stop. It is longer than the 5 s that package commit allows for a creation (createTimeout).
const PublicGrace = 6 * time.Second

const (
	stopTimeout = 15 * time.Second // time limit of an orderly stop, including commits and the return of keys
	adminGrace  = time.Second      // time that running requests on the admin listener have to finish
	// adminConnections is the maximum number of open connections of the admin listener. Further connections wait. Without
	// this limit, connections could use all memory and all file descriptors of the program.
	adminConnections = 128
)

// Program is a running server or kgs. The Lifecycle also closes the parts that the caller of Start
// opens.
type Program struct {
	Lifecycle

	log           *slog.Logger
	public, admin net.Listener // public is nil in a kgs that serves no keys
	failed        chan error
	started       bool
}

// Address is the value of a setting that names a listener.
type Address struct {
	Setting string
	Addr    config.Address
}

// Start opens the public listener if public is not nil, and then the admin listener. Then Start
// calls open, which opens the other parts. If Start fails, it closes everything that it opened.
func Start(
	ctx context.Context, admin config.Address, public *Address, log *slog.Logger, open func(context.Context, *Program) error,
) (_ *Program, err error) {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	p := New(log)
	defer func() {
		if err != nil {
			p.abandonStart()
		}
	}()
	if public != nil {
		if p.public, err = p.listen(ctx, *public); err != nil {
			return nil, err
		}
	}
	if p.admin, err = p.listen(ctx, Address{"ADMIN_ADDR", admin}); err != nil {
		return nil, err
	}
	p.admin = netutil.LimitListener(p.admin, adminConnections)
	if err := open(ctx, p); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("the start took longer than %v: %w", StartTimeout, err)
		}
		return nil, err
	}
	p.started = true
	return p, nil
}

// New returns a program without listeners. Callers other than tests use Start.
func New(log *slog.Logger) *Program {
	return &Program{log: log, failed: make(chan error, 1)}
}

// Addr returns the address of the public listener of a server or key service. It panics in a kgs
// that serves no keys, which has no public listener.
func (p *Program) Addr() net.Addr { return p.public.Addr() }

// AdminAddr returns the address of the admin listener.
func (p *Program) AdminAddr() net.Addr { return p.admin.Addr() }

// Wait blocks until ctx ends or a part of the program fails. It returns nil if ctx ends, and
// otherwise the error of the part.
func (p *Program) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

// Stop refuses new requests, answers running requests, commits links, returns unused keys and closes
// every part. It takes at most 15 s. If a part of the program failed and Wait did not return the
// error, Stop returns this error too. A second call returns the errors of the first shutdown.
func (p *Program) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	begun := time.Now()
	if p.started { // a start that failed logs only its error
		p.log.Info("stopping")
	}
	err := p.Shutdown(ctx)
	if p.started {
		p.log.Info("stopped", slog.Int64("keys_returned", p.returned), slog.Duration("after", time.Since(begun)))
	}
	select {
	case failed := <-p.failed:
		err = errors.Join(failed, err)
	default:
	}
	return err
}

// abandonStart closes what a failed start opened.
func (p *Program) abandonStart() {
	if err := p.Stop(); err != nil {
		p.log.Error("could not clean up after a failed start", slog.Any("error", err))
	}
}

// Fail passes err to Wait, or to Stop if Wait is not called again. While an earlier error waits for one of these
// calls, Fail only logs err.
func (p *Program) Fail(err error) {
	select {
	case p.failed <- err:
	default:
		p.log.Error("background part failed", slog.Any("error", err))
	}
}

// listen opens a listener. Start calls listen before all slow steps, so that an address in use is
// reported at once. A client that connects before the call of serve waits in the backlog of the
// listener.
func (p *Program) listen(ctx context.Context, a Address) (net.Listener, error) {
	l, err := listenConfig().Listen(ctx, "tcp", string(a.Addr))
	if err != nil {
		return nil, &config.Error{Name: a.Setting, Got: string(a.Addr), Takes: fmt.Sprintf("an address that is free to listen on (%v)", err)}
	}
	p.OnStop(a.Setting, func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // serve has closed the listener
	})
	return l, nil
}

// serve answers requests on l until the stop. During the stop, serve waits up to grace for running
// requests. Then it closes their connections.
func (p *Program) serve(name string, srv *http.Server, l net.Listener, grace time.Duration) {
	idle := silentConns{conns: make(map[net.Conn]time.Time)}
	observe := srv.ConnState
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		if observe != nil {
			observe(c, state)
		}
		idle.track(c, state)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.Fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
	p.OnStop(name, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		idle.close()
		err := srv.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			p.log.Warn("requests did not finish in time; their connections are closed", slog.String("listener", name))
			err = srv.Close()
		}
		<-done
		return err
	})
}

// silentConns are connections on which no byte has arrived. Browsers open such connections in
// advance, and http.Server.Shutdown would wait until each of them is five seconds old.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]time.Time
}

// silence is the minimum age of the silent connections that the stop closes. On a newer connection, the
// first request may be about to arrive.
const silence = 250 * time.Millisecond

func (n *silentConns) track(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state == http.StateNew {
		n.conns[c] = time.Now()
		return
	}
	delete(n.conns, c)
}

func (n *silentConns) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, since := range n.conns {
		if time.Since(since) > silence {
			_ = c.Close() // an error loses no data because none was sent
		}
	}
}

// LimitPublic passes the public listener to limit, and uses the listener that limit returns instead. LimitPublic must
// be called before ServePublic.
func (p *Program) LimitPublic(limit func(net.Listener) net.Listener) { p.public = limit(p.public) }

// ServePublic answers requests on the public listener until the stop.
func (p *Program) ServePublic(name string, srv *http.Server) {
	p.serve(name, srv, p.public, PublicGrace)
}

// ServeAdmin answers requests on the admin listener until the stop.
func (p *Program) ServeAdmin(name string, srv *http.Server) {
	p.serve(name, srv, p.admin, adminGrace)
}

// URL returns the URL of the public listener for clients on this machine.
func (p *Program) URL() string { return localURL(p.public.Addr()) }

// AdminURL returns the URL of the admin listener for clients on this machine.
func (p *Program) AdminURL() string { return localURL(p.admin.Addr()) }

// localURL returns the URL of a listener for clients on this machine.
func localURL(a net.Addr) string {
	addr, ok := a.(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return "http://" + a.String()
	}
	return fmt.Sprintf("http://localhost:%d", addr.Port)
}
