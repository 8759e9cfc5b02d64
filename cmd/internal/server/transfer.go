package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/internal/diskfile"
	"keypool/kgs/ledger"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/transfer"
)

// importFlags are the flags of the command import.
type importFlags struct {
	From   string `required:"" oneof:"csv,ndjson,shlink,yourls,kutt,golink" placeholder:"FORMAT" help:"Format of the file: csv or ndjson (exports of this program), shlink (CSV of its web client), yourls (CSV with the columns keyword,url,title,timestamp,ip,clicks), kutt (CSV of its table links) or golink (JSON lines of /.export)."`
	DryRun bool   `name:"dry-run" help:"Check each line, and whether its code is free, and import nothing."`
	File   string `arg:"" name:"file" help:"File to import."`
}

// errRefused reports that some records were refused.
var errRefused = errors.New("records were refused")

// importLinks imports a file.
func importLinks(ctx context.Context, s config.Server, f importFlags, out, log io.Writer) (err error) {
	if err := s.CompleteImport(serverRules()); err != nil {
		return err
	}
	file, err := os.Open(f.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // this function only reads the file
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer context.AfterFunc(ctx, func() { _ = file.Close() })() // ends a read that waits for a pipe
	hold := func(c *app.Core, ctx context.Context) error {
		if err := c.OpenLedger(ctx); err != nil {
			return err
		}
		return c.Hold(ctx, fail)
	}
	return withDatabase(ctx, s, log, hold, openOrder, func(ctx context.Context, o opened) error {
		tokens, err := tokenStore(o.core, o.connections, o.connections).List(ctx)
		if err != nil {
			return err
		}
		origin, _ := destination.ParseOrigin(string(s.BaseURL)) // CompleteImport has checked BASE_URL; if it is not set, the origin is unknown
		i := transfer.Importer{
			Links: o.store, Visits: visitStore(o.core, o.connections), Owners: transfer.NewOwners(tokens), DryRun: f.DryRun,
			Rules: shortener.ImportRules{Self: origin, OwnHosts: ownHosts(s.OwnHosts), Now: time.Now()}, Pauses: o.core.SQLite != nil,
		}
		return runImport(ctx, &i, f, file, out, log)
	})
}

// runImport imports a file and prints the refusals, the progress and the figures.
func runImport(ctx context.Context, i *transfer.Importer, f importFlags, file *os.File, out, log io.Writer) error {
	in := &countingReader{r: file}
	p := newProgress(log, sizeOf(file))
	i.Refuse = func(r transfer.Refusal) error { return p.print(r.String()) }
	i.Progress = func(s transfer.Summary) { p.show(in.read.Load(), importText(s, f.DryRun)) }
	s, err := i.Run(ctx, transfer.Format(f.From), in)
	p.end()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // instead of the error of the closed file
	}
	if err != nil && s.Imported > 0 && !f.DryRun {
		err = fmt.Errorf("%w; %d links were imported; run the same command again to import the others", err, s.Imported)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, importText(s, f.DryRun)); err != nil {
		return err
	}
	if s.Refused > 0 {
		return fmt.Errorf("%d of %d %w", s.Refused, s.Records(), errRefused)
	}
	return nil
}

func importText(s transfer.Summary, dryRun bool) string {
	verb := "imported"
	if dryRun {
		verb = "would be imported"
	}
	return fmt.Sprintf("%d links %s, %d in the database already, %d refused", s.Imported, verb, s.Present, s.Refused)
}

// countingReader counts the bytes that were read.
type countingReader struct {
	r    io.Reader
	read atomic.Int64
}

// Read implements [io.Reader].
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// sizeOf returns the length of a file in bytes, or 0 if the length is unknown.
func sizeOf(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// exportFlags are the flags of the command export.
type exportFlags struct {
	To   string `required:"" oneof:"csv,ndjson" placeholder:"FORMAT" help:"Format of the file: csv or ndjson."`
	File string `arg:"" optional:"" name:"file" help:"File to write. An existing regular file is replaced when the export is complete. By default, and if FILE is -, the export goes to standard output."`
}

// exportLinks exports all links. Until the export ends, it occupies one PostgreSQL connection of the connection pool
// for links. The tokens and the visits have another pool of connections, because the pool of the links may be limited
// to one connection.
func exportLinks(ctx context.Context, s config.Server, f exportFlags, out, log io.Writer) error {
	return withDatabase(ctx, s, log, (*app.Core).Identify, readOrder, func(ctx context.Context, o opened) error {
		others, err := openConnections(ctx, o.core)
		if err != nil {
			return err
		}
		tokens := tokenStore(o.core, others, others)
		p := newProgress(log, 0)
		e := transfer.Exporter{
			Links: o.store, Visits: visitStore(o.core, others),
			Owners: func(ctx context.Context) (*transfer.Owners, error) {
				all, err := tokens.List(ctx)
				return transfer.NewOwners(all), err
			},
			Progress: func(links int64) { p.show(links, fmt.Sprintf("%d links exported", links)) },
		}
		defer p.end()
		run := func(w io.Writer) error { return e.Run(ctx, transfer.Format(f.To), w) }
		if f.File == "" || f.File == "-" {
			return run(out)
		}
		if isPartOf(f.File, s.Database.SQLitePath) {
			return fmt.Errorf("%s is a file of the database; choose another file", f.File)
		}
		if info, err := os.Stat(f.File); err == nil && !info.Mode().IsRegular() {
			return writeTo(f.File, run)
		}
		return replaceWhenDone(f.File, run)
	})
}

// isPartOf reports whether path leads to the SQLite database or to one of the files beside it. database is empty if the
// database is PostgreSQL.
func isPartOf(path, database string) bool {
	if database == "" {
		return false
	}
	suffix, found := strings.CutPrefix(resolved(path), resolved(database))
	return found && (slices.Contains([]string{"", "-wal", "-shm", "-journal", migrations.LockSuffix}, suffix) || ledger.IsBeside(suffix))
}

// resolved returns path as an absolute path without symbolic links. The last part of the path may be missing.
func resolved(path string) string {
	path, _ = filepath.Abs(path) // fails only if the working directory was removed; the export then fails too
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(folder, filepath.Base(path))
}

// writeTo writes to a device or a pipe.
func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// replaceWhenDone writes a file that only its owner may read. If write fails, an existing file stays as it is. If path is a
// symbolic link, it must lead to an existing file, and replaceWhenDone replaces this file.
func replaceWhenDone(path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return diskfile.SyncFolder(filepath.Dir(path))
}
