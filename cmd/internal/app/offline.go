package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"keypool/cmd/internal/config"
)

// OpenOffline opens the database for a command that runs beside servers. It neither creates nor
// migrates a database: only a server's start and the command migrate do. The caller closes the Core.
func OpenOffline(ctx context.Context, s config.Common, log io.Writer) (_ *Core, err error) {
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
	c, err := openCore(ctx, s, life, NewLogger(log, s.LogLevel, s.LogFormat))
	if err != nil {
		return nil, errors.Join(err, life.stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// MigrateDatabase migrates the schema of the database.
func MigrateDatabase(ctx context.Context, s config.Common, log io.Writer) (err error) {
	if err := s.Complete(); err != nil {
		return err
	}
	s.Migrate.On = true
	life := &lifecycle{}
	defer func() { err = errors.Join(err, life.stop(context.WithoutCancel(ctx))) }()
	_, err = openCore(ctx, s, life, NewLogger(log, s.LogLevel, s.LogFormat))
	return err
}
