// Package app wires the programs of the project: it is the one place that sees
// both domains, links and keys, and every technology under them.
//
// A program is a value: a Start function opens everything in order and returns it
// running, Stop ends it in reverse. The mains only read flags and signals.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// stopTimeout bounds an orderly stop as a whole. Of it the requests under way get as
// long as a creation may take at the most, and all of it that they leave is for
// committing and handing keys back.
const (
	stopTimeout = 15 * time.Second
	publicGrace = 6 * time.Second
	adminGrace  = time.Second
)

// Program is a running server, or a running kgs.
type Program struct {
	life          lifecycle
	log           *slog.Logger
	public, admin net.Listener // public is nil in a kgs that serves no keys
	failed        chan error
}

func newProgram(log *slog.Logger) *Program {
	return &Program{log: log, failed: make(chan error, 1)}
}

// address is where to listen, and the setting that says so.
type address struct{ setting, addr string }

// startProgram starts a program: its listeners, public being nil where there is only the admin
// one, the stores and the ledger, and then what open adds. What was opened before an error
// is closed again.
func startProgram(
	ctx context.Context, s Settings, public *address, log *slog.Logger, open func(context.Context, *Program, *core) error,
) (_ *Program, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p := newProgram(log)
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
	if p.admin, err = p.listen(ctx, address{"ADMIN_ADDR", s.AdminAddr}); err != nil {
		return nil, err
	}
	c, err := openCore(ctx, s, &p.life, log)
	if err != nil {
		return nil, err
	}
	if err := c.openLedger(ctx); err != nil {
		return nil, err
	}
	if err := open(ctx, p, c); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr is where the public listener of a server, or of a key service, listens. It panics
// in a kgs that serves no keys and so has none.
func (p *Program) Addr() net.Addr { return p.public.Addr() }

// AdminAddr is where the admin listener listens.
func (p *Program) AdminAddr() net.Addr { return p.admin.Addr() }

// Wait blocks until ctx ends, which is no error, or a part of the program fails.
func (p *Program) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

// Stop takes no more requests, answers those it has, commits, hands unused keys
// back and closes everything, within stopTimeout. Stopping twice is harmless.
func (p *Program) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return p.life.stop(ctx)
}

// abandonStart closes what a start that failed had opened.
func (p *Program) abandonStart() {
	if err := p.Stop(); err != nil {
		p.log.Error("clean-up after a failed start", slog.Any("error", err))
	}
}

// fail ends Wait with the first error of a part that runs in the background.
func (p *Program) fail(err error) {
	select {
	case p.failed <- err:
	default:
		p.log.Error("failed while stopping", slog.Any("error", err))
	}
}

// listen takes an address early, before anything slow, so that one in use is
// reported at once; clients that come before serve wait in the backlog.
func (p *Program) listen(ctx context.Context, a address) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.addr)
	if err != nil {
		return nil, &SettingError{Name: a.setting, Got: a.addr, Takes: fmt.Sprintf("an address that is free to listen on (%v)", err)}
	}
	p.life.onStop(a.setting, func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the server that served it has closed it
	})
	return l, nil
}

// serve answers requests on l until the stop, which lets those under way finish within
// grace. Who has not sent his request or read his answer by then is cut off.
func (p *Program) serve(name string, srv *http.Server, l net.Listener, grace time.Duration) {
	idle := newcomers{conns: make(map[net.Conn]time.Time)}
	srv.ConnState = idle.track
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
	p.life.onStop(name, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		idle.hangUp()
		err := srv.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			p.log.Warn("cut off slow clients", slog.String("listener", name))
			err = srv.Close()
		}
		<-done
		return err
	})
}

// newcomers are connections that have not sent a byte. Browsers open some ahead of
// need, and Shutdown would wait seconds for each of them to speak.
type newcomers struct {
	mu    sync.Mutex
	conns map[net.Conn]time.Time
}

// silence is how long a connection must have been silent to be taken for one that
// has nothing to say, rather than for one whose first request is on its way.
const silence = 250 * time.Millisecond

func (n *newcomers) track(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state == http.StateNew {
		n.conns[c] = time.Now()
		return
	}
	delete(n.conns, c)
}

func (n *newcomers) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, since := range n.conns {
		if time.Since(since) > silence {
			_ = c.Close() // nothing was said on it that an error could have lost
		}
	}
}

// localURL is where a listener can be reached from this machine.
func localURL(a net.Addr) string {
	addr, ok := a.(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return "http://" + a.String()
	}
	return fmt.Sprintf("http://localhost:%d", addr.Port)
}
