package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/cmd/internal/config"
	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/shortener"
)

// plantOlderLinks adds links to the database of a stopped server, and returns their codes. The links are in the table
// links_earlier, and no order of links is recorded. A migration from a schema older than version 7 leaves the database
// in this state.
func plantOlderLinks(t *testing.T, path string, links int) (codes []string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Write.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`DELETE FROM link_order`)
	exec(`CREATE TABLE links_earlier (code TEXT PRIMARY KEY, url TEXT, source TEXT, created_at INTEGER, expires_at INTEGER, deleted_at INTEGER)`)
	for i := range links {
		codes = append(codes, []string{fmt.Sprintf("old%03d", i), fmt.Sprintf("old-%d", i)}[i%2])
		exec(`INSERT INTO links_earlier (code, url, source, created_at) VALUES (?, ?, 'alias', 0)`, codes[i], "https://go.dev/"+codes[i])
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return codes
}

func TestStartRefusesDatabaseOfAnotherProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Write.ExecContext(t.Context(), `CREATE TABLE visits (id bigint)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"migrate"}, {}} {
		status, out := command(t, "sqlite:"+path, args...)
		if status != 2 || !strings.HasPrefix(out, "shortener: DATABASE_URL ") || !strings.Contains(out, "visits") {
			t.Errorf("shortener %s on a database of another program: status %d, want 2 and the table; output:\n%s", args, status, out)
		}
	}
}

// A server moves the links of an older schema before it serves. Until then, other commands refuse to use
// the links.
func TestServerMovesLinksOfOlderSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	s := settings(t, "sqlite:"+path, "")
	start(t, s).stop()
	codes := plantOlderLinks(t, path, 20)

	for _, args := range [][]string{{"audit"}, {"delete", codes[0]}} {
		if status, out := command(t, "sqlite:"+path, args...); status == 0 || !strings.Contains(out, "shortener migrate") {
			t.Errorf("%s before the move: exit status %d, %s", args[0], status, out)
		}
	}
	s.Migrate.On = false
	if _, err := Start(t.Context(), s, slog.New(slog.DiscardHandler)); !errors.Is(err, errLinksNotMoved) {
		t.Errorf("start with MIGRATE=false: %v, want errLinksNotMoved", err)
	}
	s.Migrate.On = true
	var log logbuffer.Buffer
	r := startLogging(t, s, &log)
	for _, code := range codes {
		r.wantStatus(code, http.StatusFound, "https://go.dev/"+code)
	}
	if !strings.Contains(log.String(), "moved=20 total=20") {
		t.Errorf("the log does not show the move:\n%s", log.String())
	}
	r.stop()
	if status, out := command(t, "sqlite:"+path, "audit"); status != 0 {
		t.Errorf("audit after the move: exit status %d, %s", status, out)
	}
}

// The command migrate moves the links, and a server with MIGRATE=false then serves them.
func TestMigrateMovesLinksOfOlderSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	s := settings(t, "sqlite:"+path, "")
	start(t, s).stop()
	codes := plantOlderLinks(t, path, 3)
	for range 2 {
		if status, out := command(t, "sqlite:"+path, "migrate"); status != 0 {
			t.Fatalf("migrate: exit status %d, %s", status, out)
		}
	}
	s.Migrate.On = false
	r := start(t, s)
	for _, code := range codes {
		r.wantStatus(code, http.StatusFound, "https://go.dev/"+code)
	}
}

// A program with another FF1 key fails before it moves a link.
func TestWrongSecretIsRefusedBeforeLinksMove(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	s := settings(t, "sqlite:"+path, "", "--kgs-secret="+strings.Repeat("2b", 16))
	start(t, s).stop()
	plantOlderLinks(t, path, 3)
	wrong := settings(t, "sqlite:"+path, "", "--kgs-secret="+strings.Repeat("2c", 16))
	if _, err := Start(t.Context(), wrong, slog.New(slog.DiscardHandler)); !errors.Is(err, ledger.ErrWrongSecret) {
		t.Errorf("start with another secret: %v, want ErrWrongSecret", err)
	}
	status, out, _ := runShortener(t, "--database-url=sqlite:"+path, "--kgs-secret="+strings.Repeat("2c", 16), "migrate")
	if status != 2 {
		t.Errorf("migrate with another secret: exit status %d, %s; want 2", status, out)
	}
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var moved int
	if err := db.Read.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM all_links) + (SELECT count(*) FROM link_order)`).Scan(&moved); err != nil || moved != 0 {
		t.Errorf("%d rows were written, %v; want none", moved, err)
	}
}

// A migration can make the schema too new for the program that created the ledger. So a program with another secret or
// another permutation, which could not use the ledger anyway, does not migrate the database.
func TestWrongSecretIsRefusedBeforeMigration(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": sqliteURL(t), "postgres": testenv.PostgresURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right := "--kgs-secret=" + strings.Repeat("2b", 16)
			start(t, settings(t, url, "", right)).stop()
			db := openSQL(t, url)
			// The schema looks older than it is, so a program that migrates it fails with another error.
			if _, err := db.ExecContext(t.Context(), `DELETE FROM goose_db_version WHERE version_id > 5`); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range []string{"--kgs-secret=" + strings.Repeat("2c", 16), "--kgs-permute=false"} {
				if _, err := Start(t.Context(), settings(t, url, "", wrong), slog.New(slog.DiscardHandler)); !errors.Is(err, ledger.ErrWrongSecret) {
					t.Errorf("start with %s: %v, want ErrWrongSecret", wrong, err)
				}
				for _, name := range []string{"migrate", "reindex"} {
					if status, out := command(t, url, wrong, name); status != 2 || !strings.Contains(out, ledger.ErrWrongSecret.Error()) {
						t.Errorf("%s with %s: exit status %d, %s; want 2 and ErrWrongSecret", name, wrong, status, out)
					}
				}
			}
			var version int
			if err := db.QueryRowContext(t.Context(), `SELECT max(version_id) FROM goose_db_version`).Scan(&version); err != nil || version != 5 {
				t.Errorf("schema version %d, %v; want 5", version, err)
			}
		})
	}
}

// If a server was suspended while `shortener reindex` ran, the server stops when it resumes. Otherwise it would look for
// links under their former ranks.
func TestServerStopsIfReindexChangesLinkOrder(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": sqliteURL(t), "postgres": testenv.PostgresURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, settings(t, url, ""))
			r.shorten("https://go.dev/")
			if _, err := openSQL(t, url).ExecContext(t.Context(), `UPDATE link_order SET fingerprint = 'another'`); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := r.Wait(ctx); !errors.Is(err, shortener.ErrOtherOrder) {
				t.Errorf("the server ended with %v, want ErrOtherOrder", err)
			}
		})
	}
}

// openSQL opens the SQLite or PostgreSQL database at url without the code under test.
func openSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, url = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)" // a server may write at the same time
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// The codes of tickets are consecutive numbers, so their links are stored in the order of these numbers. The
// order stays if another key source creates links later.
func TestOrderOfLinksFollowsFirstKeySourceOfDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	for _, s := range []config.Server{
		settings(t, "sqlite:"+path, "", "--key-source=ticket", "--ticket-database-urls="+sqliteURL(t)+","+sqliteURL(t)),
		settings(t, "sqlite:"+path, ""),
	} {
		r := start(t, s)
		code := r.shorten("https://go.dev/")
		r.stop()
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		var rank int64
		err = db.Read.QueryRowContext(t.Context(), `SELECT rank FROM ranked_links WHERE code = ?`, code).Scan(&rank)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if want, _ := codespace.Plain().Rank(code); rank != want {
			t.Errorf("KEY_SOURCE=%s: the link %s has the rank %d, want %d", s.KeySource, code, rank, want)
		}
		r = start(t, s)
		r.wantStatus(code, http.StatusFound, "https://go.dev/")
		r.stop()
	}
}

// After the secret is lost, reindex with a new secret keeps every link. The accounts close, and new links
// have codes of the new secret.
func TestReindexReplacesLostSecret(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": sqliteURL(t), "postgres": testenv.PostgresURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost, found := "--kgs-secret="+strings.Repeat("2b", 16), "--kgs-secret="+strings.Repeat("2c", 16)
			r := start(t, settings(t, url, "", lost))
			r.await("a batch", hasBatch)
			links := map[string]string{}
			for i := range 20 {
				target := fmt.Sprintf("https://go.dev/%d", i)
				links[r.shorten(target)] = target
			}
			r.stop()

			reindex := func(args ...string) (int, string) {
				return command(t, url, append(append([]string{}, args...), "reindex")...)
			}
			if status, out := reindex(found); status != 2 || !strings.Contains(out, "--replace-secret") {
				t.Errorf("reindex with another secret: exit status %d, %s; want 2 and advice", status, out)
			}
			for range 2 { // the second call changes nothing
				if status, out := command(t, url, found, "reindex", "--replace-secret"); status != 0 || !strings.Contains(out, `"key_source":"memory-pool"`) {
					t.Fatalf("reindex: exit status %d, %s; want 0 and the key source", status, out)
				}
			}
			if _, err := Start(t.Context(), settings(t, url, "", lost), slog.New(slog.DiscardHandler)); !errors.Is(err, ledger.ErrWrongSecret) {
				t.Errorf("start with the lost secret: %v, want ErrWrongSecret", err)
			}
			r = start(t, settings(t, url, "", found))
			code := r.shorten("https://go.dev/new")
			links[code] = "https://go.dev/new"
			for code, target := range links {
				r.wantStatus(code, http.StatusFound, target)
			}
			r.stop()
			if status, out := command(t, url, found, "audit"); status != 0 || !strings.Contains(out, "20 former") {
				t.Errorf("audit: exit status %d, %s; want 20 links with the source former", status, out)
			}
		})
	}
}

// If reindex ran beside a server, the server would continue to create links in the order that reindex replaces.
func TestReindexIsRefusedWhileServerRuns(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, ""))
	code := r.shorten("https://go.dev/")
	status, out := command(t, url, "--kgs-secret="+strings.Repeat("2c", 16), "reindex", "--replace-secret")
	if status != 1 || !strings.Contains(out, ledger.ErrInUse.Error()) {
		t.Errorf("reindex while a server runs: exit status %d, %s; want 1 and %q", status, out, ledger.ErrInUse)
	}
	if status, out := command(t, url, "--key-source=redis-incr", "--redis-url=redis://127.0.0.1:1", "reindex"); status != 1 || !strings.Contains(out, ledger.ErrInUse.Error()) {
		t.Errorf("reindex to another order while a server runs: exit status %d, %s; want 1", status, out)
	}
	r.wantStatus(code, http.StatusFound, "https://go.dev/")
}

// Without --replace-secret, the flag --forget-leases would have no effect, so the command refuses it.
func TestReindexRefusesForgetLeasesWithoutReplaceSecret(t *testing.T) {
	t.Parallel()
	if status, out := command(t, sqliteURL(t), "reindex", "--forget-leases"); status != 2 || !strings.Contains(out, "only with --replace-secret") {
		t.Errorf("reindex --forget-leases: exit status %d, %s; want 2 and the missing flag", status, out)
	}
}

// If reindex created a database, it would report success although the path of the database is wrong.
func TestReindexCreatesNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "links.db")
	if status, out := command(t, "sqlite:"+path, "reindex"); status != 1 || !strings.Contains(out, "no database at "+path) {
		t.Errorf("reindex without a database: exit status %d, %s; want 1 and the path", status, out)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reindex without a database created a folder (error %v)", err)
	}
}

// The move of the links needs two connections at the same time, one of them for the lock. It opens a pool of its own, so
// it works even if pool_max_conns is 1.
func TestMigrateAndServerWorkWithOneDatabaseConnection(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t) + "&pool_max_conns=1"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errs bytes.Buffer
	if status := Run(ctx, []string{"--database-url=" + url, "migrate"}, io.Discard, &errs); status != 0 {
		t.Fatalf("migrate: exit status %d, %s", status, &errs)
	}
	r := start(t, settings(t, url, ""))
	r.wantStatus(r.shorten("https://go.dev/"), http.StatusFound, "https://go.dev/")
}

// A command that creates no links must not determine the order of the links, because a server may have
// another key source.
func TestOfflineCommandsDoNotRecordLinkOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	start(t, settings(t, "sqlite:"+path, "")).stop()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Write.ExecContext(t.Context(), `DELETE FROM link_order`); err != nil {
		t.Fatal(err)
	}
	if status, out := command(t, "sqlite:"+path, "audit"); status != 0 {
		t.Errorf("audit: exit status %d, %s", status, out)
	}
	if status, out := command(t, "sqlite:"+path, "delete", "unknown"); status == 0 {
		t.Errorf("delete of an unknown code: exit status 0, %s", out)
	}
	var orders int
	if err := db.Read.QueryRowContext(t.Context(), `SELECT count(*) FROM link_order`).Scan(&orders); err != nil || orders != 0 {
		t.Errorf("%d orders are on record, %v; want none", orders, err)
	}
}

// If reindex accepted a misspelt key source, it could move all links into another order. The other commands check the
// key source in the same way.
func TestOfflineCommandsRefuseUnknownKeySource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "links.db")
	start(t, settings(t, "sqlite:"+path, "")).stop()
	for _, args := range [][]string{{"migrate"}, {"reindex"}, {"audit"}, {"delete", "code"}} {
		status, out := command(t, "sqlite:"+path, append([]string{"--key-source=tickets"}, args...)...)
		if status != 2 || !strings.Contains(out, "KEY_SOURCE") || !strings.Contains(out, "memory-pool, ledger") {
			t.Errorf("%s: exit status %d, %s; want 2 and the key sources", args[0], status, out)
		}
	}
}
