package server

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

// exportOf returns the export of a database.
func exportOf(t *testing.T, url, format string) string {
	t.Helper()
	status, stdout, stderr := runShortener(t, "--database-url="+url, "export", "--to="+format)
	if status != 0 { // a slow export shows its progress on standard error
		t.Fatalf("export: exit status %d, %s", status, stderr)
	}
	return stdout
}

// migrated returns the URL of a database without links.
func migrated(t *testing.T, url string) string {
	t.Helper()
	if status, out := command(t, url, "migrate"); status != 0 {
		t.Fatalf("migrate: %s", out)
	}
	return url
}

func writeLinks(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "links")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The links of a running server are exported. After an import, another server serves these links. If a key of that server equals
// the code of an imported link, the server skips the key.
func TestExportedLinksAreServedAfterImport(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		old := start(t, settings(t, url, ""))
		bearer, _ := createdToken(t, url, "--name=ci", "--scope=create,edit")
		owned := old.create(bearer)
		if owned.status != http.StatusCreated {
			t.Fatalf("a creation with a token: %+v", owned)
		}
		code, deleted := old.shorten("https://go.dev/1"), old.shorten("https://go.dev/2")
		if status, out := command(t, url, "delete", deleted); status != 0 {
			t.Fatalf("delete: %s", out)
		}
		file := filepath.Join(t.TempDir(), "links.csv")
		if status, out := command(t, url, "export", "--to=csv", file); status != 0 {
			t.Fatalf("export: exit status %d, %s", status, out)
		}
		want := exportOf(t, url, "csv")
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("the exported file is\n%s%v, want\n%s", text, err, want)
		}

		target := migrated(t, sqliteURL(t))
		if status, out := command(t, target, "import", "--from=csv", file); status != 1 || !strings.Contains(out, "line 2, ") || !strings.Contains(out, "token create") {
			t.Errorf("import without a token for the owner: exit status %d, %s", status, out)
		}
		createdToken(t, target, "--name=ci", "--scope=create")
		if status, out := command(t, target, "import", "--from=csv", file); status != 0 || !strings.Contains(out, "1 links imported, 2 in the database already, 0 refused") {
			t.Errorf("import: exit status %d, %s", status, out)
		}
		if got := exportOf(t, target, "csv"); got != want {
			t.Errorf("the export of the import is\n%s, want\n%s", got, want)
		}
		r := start(t, settings(t, target, ""))
		r.wantStatus(code, http.StatusFound, "https://go.dev/1")
		r.wantStatus(deleted, http.StatusGone, "")
		r.await("a full pool", fullWithBatch)
		if status, out := command(t, target, "audit"); status != 0 {
			t.Errorf("audit: exit status %d, %s", status, out)
		}
		if status, out := command(t, url, "import", "--from=csv", file); status != 0 {
			t.Errorf("import into the database of the export: exit status %d, %s", status, out)
		}
	})
}

// A running server finds an imported link at once, although it answered 404 for the code before. The server does not use keys whose
// codes the import took.
func TestRunningServerFindsImportedLinks(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		const length = 3
		r := start(t, settings(t, url, "", "--code-length=3", "--kgs-permute=false", "--kgs-pool-capacity=1000", "--anonymous-rate=off"))
		r.await("a full pool", func(s admin.Status) bool { return s.PoolKeys != nil && *s.PoolKeys >= 900 && hasBatch(s) })
		var links strings.Builder
		links.WriteString("keyword,url\n")
		const taken = 50
		for n := range taken {
			fmt.Fprintf(&links, "%0*d,https://go.dev/taken/%d\n", length, n, n)
		}
		r.wantStatus("004", http.StatusNotFound, "")
		if status, out, _ := runShortener(t, "--database-url="+url, "--kgs-permute=false", "import", "--from=yourls", writeLinks(t, links.String())); status != 0 {
			t.Fatalf("import: exit status %d, %s", status, out)
		}
		for n := range 10 {
			r.wantStatus(fmt.Sprintf("%0*d", length, n), http.StatusFound, fmt.Sprintf("https://go.dev/taken/%d", n))
		}
		code := r.shorten("https://go.dev/new")
		r.wantStatus(code, http.StatusFound, "https://go.dev/new")
		metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
		// The codes 000 to 009 are keys of the pool, and also codes of imported links.
		if want := `kgs_key_conflicts_total{source="pool"} 10`; !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
		if status, out, _ := runShortener(t, "--database-url="+url, "--kgs-permute=false", "audit"); status != 0 {
			t.Errorf("audit: exit status %d, %s", status, out)
		}
	})
}

func TestImportRefusesBadInput(t *testing.T) {
	t.Parallel()
	url := migrated(t, sqliteURL(t))
	file := writeLinks(t, "keyword,url\nok,https://go.dev/\na.b,https://go.dev/\nself,https://go.example/x\n")
	for _, tt := range []struct {
		args   []string
		status int
		words  string
	}{
		{[]string{"import", file}, 2, "--from"},
		{[]string{"import", "--from=bitly", file}, 2, `--from: got "bitly", takes csv, ndjson, shlink, yourls, kutt or golink`},
		{[]string{"import", "--from=csv"}, 2, "<file>"},
		{[]string{"import", "--from=csv", file + "x"}, 1, "no such file"},
		{[]string{"import", "--from=kutt", file}, 1, `the column "address" is missing`},
		{[]string{"import", "--from=yourls", "--dry-run", "--base-url=https://go.example", file}, 1, "2 of 3 records were refused"},
		{[]string{"import", "--from=yourls", file}, 1, `line 3, "a.b": keyword must contain only`},
		{[]string{"export"}, 2, "--to"},
		{[]string{"export", "--to=shlink"}, 2, `--to: got "shlink", takes csv or ndjson`},
		{[]string{"export", "--to=csv", filepath.Join(file, "x")}, 1, "not a directory"},
	} {
		status, _, stderr := runShortener(t, append([]string{"--database-url=" + url}, tt.args...)...)
		if status != tt.status || !strings.Contains(stderr, tt.words) {
			t.Errorf("%q: exit status %d, stderr %q; want %d and %q", tt.args, status, stderr, tt.status, tt.words)
		}
	}
	if status, out := command(t, sqliteURL(t), "import", "--from=yourls", file); status != 1 || !strings.Contains(out, "shortener migrate") {
		t.Errorf("import without a database: exit status %d, %s", status, out)
	}
}

// An import with the wrong settings must not change the ledger, which may belong to another program.
func TestImportRegistersNoHolderInLedgerWithOtherSecret(t *testing.T) {
	t.Parallel()
	url, file := migrated(t, sqliteURL(t)), writeLinks(t, "keyword,url\nok,https://go.dev/\n")
	if status, out := command(t, url, "import", "--from=yourls", file); status != 0 {
		t.Fatalf("import: exit status %d, %s", status, out)
	}
	const refusal = "the test refuses holders"
	execute(t, url, `CREATE TRIGGER no_holder BEFORE INSERT ON kgs_holders BEGIN SELECT RAISE(ABORT, '`+refusal+`'); END`)
	status, out := command(t, url, "--kgs-permute=false", "import", "--from=yourls", file)
	if status == 0 || !strings.Contains(out, "KGS_PERMUTE") || strings.Contains(out, refusal) {
		t.Errorf("import with another code space: exit status %d, %s", status, out)
	}
	if status, out := command(t, url, "import", "--from=yourls", file); !strings.Contains(out, refusal) {
		t.Errorf("import into the ledger: exit status %d, %s, want the refusal of the test", status, out)
	}
}

// programVariable is an environment variable that makes the test binary run the program shortener.
const programVariable = "KEYPOOL_TEST_SHORTENER"

// The import is killed several times while it inserts links, and then repeated. The database then has the same links,
// and the same imported counts of visits, as after one import. Visits that are counted between the attempts do not change
// the imported counts.
func TestKilledImportCanBeRepeated(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		const records = 20_000
		var links strings.Builder
		links.WriteString("code,url,created_at,title,human_visits\n")
		for n := range records {
			fmt.Fprintf(&links, "%06d,https://go.dev/%d,2020-01-02T03:04:05Z,Title %d,%d\n", n*7919%1_000_000, n, n, n%3)
		}
		migrated(t, url)
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		const kills = 3
		for n := range kills {
			killImport(t, url, pipe, links.String()[:links.Len()*(n+1)/(kills+1)])
			execute(t, url, fmt.Sprintf(`INSERT INTO visits (code, hour, owner, human, bot) SELECT code, %d, 0, 1, 0 FROM all_links`, n+1))
		}
		path := writeLinks(t, links.String())
		status, out := command(t, url, "import", "--from=csv", path)
		if status != 0 || strings.HasPrefix(out, "0 links imported") || strings.Contains(out, " 0 in the database already") {
			t.Errorf("the repeated import: exit status %d, %s", status, out)
		}
		once := migrated(t, sqliteURL(t))
		if status, out := command(t, once, "import", "--from=csv", path); status != 0 {
			t.Fatalf("import: exit status %d, %s", status, out)
		}
		execute(t, url, `DELETE FROM visits WHERE hour > 0`)
		if exportOf(t, url, "ndjson") != exportOf(t, once, "ndjson") {
			t.Error("the links of the killed imports differ from those of one import")
		}
	})
}

// execute executes a statement in a database.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Write.ExecContext(t.Context(), statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		return
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// An export reads the links and their visits at the same time, although pool_max_conns permits only one
// connection for links.
func TestImportAndExportWorkWithOneDatabaseConnection(t *testing.T) {
	t.Parallel()
	url := migrated(t, testenv.PostgresURL(t)+"&pool_max_conns=1")
	const links = "code,url,created_at,human_visits\na,https://go.dev/a,2020-01-02T03:04:05Z,5\nb,https://go.dev/b,2020-01-02T03:04:06Z,\n"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the second import finds both links
		var errs bytes.Buffer
		if status := Run(ctx, []string{"--database-url=" + url, "import", "--from=csv", writeLinks(t, links)}, io.Discard, &errs); status != 0 {
			t.Fatalf("import: exit status %d, %s", status, &errs)
		}
	}
	var file, errs bytes.Buffer
	if status := Run(ctx, []string{"--database-url=" + url, "export", "--to=csv"}, &file, &errs); status != 0 || !strings.Contains(file.String(), ",5,") {
		t.Errorf("export: exit status %d, %s%s", status, &file, &errs)
	}
}

// killImport imports a file that does not end, and kills the program when the program has read most of the given text. The text
// must be so long that the program inserts links before that.
func killImport(t *testing.T, url, pipe, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "--database-url="+url, "import", "--from=csv", pipe)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until the program opens the pipe
	if err == nil {
		w := bufio.NewWriter(file)
		_, err = w.WriteString(text) // blocks until the program has read most of the text
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel() // SIGKILL
	if err := cmd.Wait(); err == nil {
		t.Error("the import ended before it was killed")
	}
	_ = file.Close()
}

func TestExportRefusesToReplaceItsDatabase(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	start(t, settings(t, url, "")).stop()
	database := strings.TrimPrefix(url, "sqlite:")
	before, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "links.csv")
	if err := os.Symlink(database, link); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{database, database + "-wal", database + "-shm", database + "-migrate", database + ".witness-x", database + ".holder-x", link} {
		status, _, stderr := runShortener(t, "--database-url="+url, "export", "--to=csv", file)
		if status == 0 || !strings.Contains(stderr, "is a file of the database; choose another file") {
			t.Errorf("export to %s: exit status %d, %s", file, status, stderr)
		}
	}
	if after, err := os.ReadFile(database); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed: %v", err)
	}
	beside := database + ".csv"
	if status, _, stderr := runShortener(t, "--database-url="+url, "export", "--to=csv", beside); status != 0 {
		t.Errorf("export to %s: exit status %d, %s", beside, status, stderr)
	}
}

func TestExportReplacesFileToWhichSymbolicLinkLeads(t *testing.T) {
	t.Parallel()
	dir, export := t.TempDir(), func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	target, link, broken := filepath.Join(dir, "volume", "links.csv"), filepath.Join(dir, "links.csv"), filepath.Join(dir, "broken.csv")
	if err := errors.Join(
		os.Mkdir(filepath.Dir(target), 0o700), os.WriteFile(target, []byte("old"), 0o600),
		os.Symlink(filepath.Join("volume", "links.csv"), link), os.Symlink("missing", broken),
	); err != nil {
		t.Fatal(err)
	}
	if err := replaceWhenDone(link, export); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "new" {
		t.Errorf("the file to which the link leads has the content %q, %v; want the export", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v; want a symbolic link", info, err)
	}
	if err := replaceWhenDone(broken, export); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an export to a link that leads to no file returns %v", err)
	}
}
