package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"keypool/shortener"
)

// openOffline opens the database for a command that works beside running servers. It
// neither creates nor migrates anything: that is for migrate, or a server's start.
func openOffline(ctx context.Context, flags Flags, log io.Writer) (_ *core, err error) {
	s, err := flags.Parse()
	if err != nil {
		return nil, err
	}
	s.Migrate = false
	if path := s.Database.sqlitePath; path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no database at %s", path)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	life := &lifecycle{}
	c, err := openCore(ctx, s, life, newLogger(log, s.LogLevel, s.LogFormat))
	if err != nil {
		return nil, errors.Join(err, life.stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// migrateDatabase brings the schema up to date.
func migrateDatabase(ctx context.Context, flags Flags, log io.Writer) (err error) {
	s, err := flags.Parse()
	if err != nil {
		return err
	}
	s.Migrate = true
	life := &lifecycle{}
	defer func() { err = errors.Join(err, life.stop(context.WithoutCancel(ctx))) }()
	_, err = openCore(ctx, s, life, newLogger(log, s.LogLevel, s.LogFormat))
	return err
}

// DeleteFlags are those of the command delete.
type DeleteFlags struct {
	Codes []string `arg:"" name:"code" help:"Codes of the links to delete."`
}

// deleteLinks makes tombstones of links, and returns when no server answers for them
// from memory any more. A code that no link has is an error, after all others are deleted.
func deleteLinks(ctx context.Context, flags Flags, del DeleteFlags, out io.Writer) (err error) {
	c, err := openOffline(ctx, flags, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.life.stop(context.WithoutCancel(ctx))) }()
	var errs []error
	for _, code := range del.Codes {
		if err := c.delete(ctx, code); err != nil {
			errs = append(errs, fmt.Errorf("delete %q: %w", code, err))
			continue
		}
		if _, err := fmt.Fprintf(out, "%s is gone\n", code); err != nil {
			errs = append(errs, err)
		}
	}
	select {
	case <-time.After(shortener.Freshness):
	case <-ctx.Done():
	}
	return errors.Join(errs...)
}

// deleteTimeout bounds the deletion of one link.
const deleteTimeout = 10 * time.Second

func (c *core) delete(ctx context.Context, code string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return c.store.Delete(ctx, code, time.Now().UTC())
}

// checkHealth asks the program that listens on adminAddr whether it is ready.
func checkHealth(ctx context.Context, adminAddr string) error {
	host, port, err := net.SplitHostPort(adminAddr)
	if err != nil {
		return &SettingError{Name: "ADMIN_ADDR", Got: adminAddr, Takes: "[host]:port"}
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the status is all that is wanted
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", resp.Status)
	}
	return nil
}
