package bars

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/web"
	"keypool/web/httpserver"
)

// durableLog starts a server that consists of the HTTP handler and the group commit of Keypool, but
// has no database. Each commit appends its links to a file with one write and one fdatasync. No
// database makes links durable with less work, so no store reaches a higher rate than this server.
func durableLog(t *experiment.T) (url string) {
	path, err := os.Executable()
	t.Must(err)
	return lab.Other(t, nil, func(addr string) (string, []string) {
		return path, []string{"durable-log", "--listen", addr, "--file", filepath.Join(t.TempDir(), "links.log")}
	}, func(ctx context.Context, url string) error { return measure.TryCreation(ctx, url, keyBody) })
}

// ServeDurableLog serves creations on addr until ctx ends. It appends the links to the file.
func ServeDurableLog(ctx context.Context, addr, file string) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	service := service.New(service.Config{Store: &logStore{file: f}, Keys: &numbered{}})
	defer func() { err = errors.Join(err, service.Close(context.WithoutCancel(ctx))) }()
	log := slog.New(slog.DiscardHandler)
	server := httpserver.New(web.NewPublic(web.PublicConfig{Service: service, Logger: log}), log)
	server.Addr = addr
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // the process is about to end, so broken connections do no harm
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// numbered supplies the codes of consecutive numbers.
type numbered struct{ next atomic.Int64 }

// Next implements [shortener.Keys].
func (n *numbered) Next(context.Context, string, int) (shortener.Key, error) {
	return shortener.Key{Code: space.Code(codeLength, n.next.Add(1)), Source: "pool"}, nil
}

// logStore appends links to a file, and never finds a link. Only one Insert runs at a time. The embedded interface is nil,
// so a call of a method that logStore does not define would panic. The server makes no such call.
type logStore struct {
	shortener.Store
	file *os.File
	rows []byte
}

// Insert implements [shortener.Store].
func (s *logStore) Insert(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	s.rows = s.rows[:0]
	outcomes := make([]shortener.Outcome, len(links))
	for i := range links {
		s.rows = fmt.Appendf(s.rows, "%s %s %d\n", links[i].Code, links[i].URL, links[i].CreatedAt.UnixMicro())
		outcomes[i] = shortener.Inserted
	}
	if _, err := s.file.Write(s.rows); err != nil {
		return nil, err
	}
	return outcomes, syscall.Fdatasync(int(s.file.Fd()))
}

// Writers implements [shortener.Store].
func (*logStore) Writers() int { return 1 }

// Lookup implements [shortener.Store].
func (*logStore) Lookup(context.Context, string) (shortener.Link, error) {
	return shortener.Link{}, shortener.ErrNotFound
}

// Ping implements [shortener.Store].
func (*logStore) Ping(context.Context) error { return nil }
