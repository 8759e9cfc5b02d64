package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/shortener"
)

// openOffline opens the database for a command that runs beside servers. It neither creates nor
// migrates a database: only a server's start and the command migrate do.
func openOffline(ctx context.Context, s config.Common, log io.Writer) (_ *core, err error) {
	if err := s.Complete(); err != nil {
		return nil, err
	}
	s.Migrate.On = false
	if path := s.Database.SQLitePath; path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no database at %s: start a server or run `shortener migrate`", path)
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

// migrateDatabase migrates the schema of the database.
func migrateDatabase(ctx context.Context, s config.Common, log io.Writer) (err error) {
	if err := s.Complete(); err != nil {
		return err
	}
	s.Migrate.On = true
	life := &lifecycle{}
	defer func() { err = errors.Join(err, life.stop(context.WithoutCancel(ctx))) }()
	_, err = openCore(ctx, s, life, newLogger(log, s.LogLevel, s.LogFormat))
	return err
}

// deleteFlags are those of the command delete.
type deleteFlags struct {
	Codes []string `arg:"" name:"code" help:"Codes of the links to delete."`
}

// deleteLinks makes tombstones of links. It returns when no server serves them from its cache any
// more.
func deleteLinks(ctx context.Context, s config.Common, codes []string, out io.Writer) (err error) {
	c, err := openOffline(ctx, s, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.life.stop(context.WithoutCancel(ctx))) }()
	err = operate.Delete(ctx, c.store, codes, out)
	select {
	case <-time.After(shortener.Freshness):
	case <-ctx.Done():
	}
	return err
}
