package server

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", with which the test changes data directly
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/internal/testenv/machine"
	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/kgs/codespace"
)

// report is the output of `shortener audit --json`.
type report struct {
	audit.Accounts
	Closes bool `json:"closes"`

	status int
	stderr string
}

// auditJSON runs `shortener audit --json`. It may be called from any goroutine.
func auditJSON(t *testing.T, database, redisURL string) (r report) {
	t.Helper()
	args := []string{"--database-url=" + database, "audit", "--json"}
	if redisURL != "" {
		args = append(args, "--redis-url="+redisURL)
	}
	var stdout string
	r.status, stdout, r.stderr = runShortener(t, args...)
	if r.status == 2 {
		return r
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Errorf("audit --json: %v in %s", err, stdout)
	}
	if r.Closes != (r.status == 0) || r.Closes != (len(r.Faults) == 0) {
		t.Errorf("audit --json: exit status %d and closes is %t, with %d faults", r.status, r.Closes, len(r.Faults))
	}
	return r
}

// After a change from KEY_SOURCE=redis-pool to another key source, the audit still needs the pool. If the Redis of the pool is
// gone, the audit must say how to continue. If the operator follows this advice, the next audit must succeed.
func TestAuditAdvisesWhatToDoIfRedisOfPoolIsGone(t *testing.T) {
	t.Parallel()
	database, empty := sqliteURL(t), testenv.RedisURL(t)
	r := start(t, settings(t, database, testenv.RedisURL(t)))
	r.await("a full pool", fullWithBatch)
	r.stop()
	for _, redisURL := range []string{"", "redis://127.0.0.1:1", empty} {
		status, out := command(t, database, "--key-source=memory-pool", "--redis-url="+redisURL, "audit")
		if status != 2 || !strings.Contains(out, "set REDIS_URL to the Redis of the pool; if its data is permanently lost and no server uses redis-pool, start `kgs`") {
			t.Errorf("audit with the Redis %q: exit status %d, %s; want 2 and advice", redisURL, status, out)
		}
	}
	p, _ := startKeyServiceWith(t, settings(t, database, empty).Common)
	(&running{p, t, &http.Client{Transport: &http.Transport{}}}).await("a full pool", fullWithBatch)
	if a := auditJSON(t, database, empty); !a.Closes || a.Abandoned[kgs.ReasonEpoch] == 0 {
		t.Errorf("audit after the start of kgs: %+v; want accounts that close with keys of an earlier epoch", a)
	}
}

// fixture is a stopped service that has created some links. The test reads and changes the data of the
// service directly.
type fixture struct {
	t                  *testing.T
	database, redisURL string
	db                 *sql.DB
	redis              *redis.Client
	list               string // name of the list of codes in Redis
	space              *codespace.Space
	linked             []string // codes from the pool
	faults             []audit.Fault
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, database: testenv.PostgresURL(t), redisURL: testenv.RedisURL(t)}
	r := start(t, settings(t, s.database, s.redisURL))
	r.await("a full pool", fullWithBatch)
	for range 20 {
		s.linked = append(s.linked, r.shorten("https://go.dev/"))
	}
	a := r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url=https://go.dev/&alias=by-name")
	if a.status != http.StatusCreated {
		t.Fatalf("POST /shorten with an alias: %+v", a)
	}
	r.stop()
	s.open()
	return s
}

// open connects to the databases without the code under test.
func (s *fixture) open() {
	s.t.Helper()
	opts, err := redis.ParseURL(s.redisURL)
	if err != nil {
		s.t.Fatal(err)
	}
	s.redis = redis.NewClient(opts)
	s.t.Cleanup(func() { s.redis.Close() })
	s.openDatabase()
	var secret []byte
	var name string
	if err := s.db.QueryRowContext(s.t.Context(), `SELECT secret, name FROM kgs_ledger`).Scan(&secret, &name); err != nil {
		s.t.Fatal(err)
	}
	s.list = "keypool:{" + name + "}:keys"
	if s.space, err = codespace.New(secret); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) openDatabase() {
	s.t.Helper()
	db, err := sql.Open("pgx", s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { db.Close() })
	s.db = db
}

func (s *fixture) exec(query string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), query, args...); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
}

func (s *fixture) link(code, source string) {
	s.t.Helper()
	if rank, ok := s.space.Rank(code); ok {
		s.exec(`INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES ($3, $1, 'https://go.dev/', $2, now())`, code, source, rank)
		return
	}
	s.exec(`INSERT INTO unranked_links (code, url, source, created_at) VALUES ($1, 'https://go.dev/', $2, now())`, code, source)
}

func (s *fixture) push(code string) {
	s.t.Helper()
	if err := s.redis.RPush(s.t.Context(), s.list, code).Err(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) pop() string {
	s.t.Helper()
	code, err := s.redis.LPop(s.t.Context(), s.list).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return code
}

// waiting returns the code at a position in the pool, counted from 0.
func (s *fixture) waiting(position int64) string {
	s.t.Helper()
	code, err := s.redis.LIndex(s.t.Context(), s.list, position).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return code
}

// want fails the test unless the audit finds exactly the faults that were planted so far. The audit must
// also count the given number of keys as abandoned because of a conflict.
func (s *fixture) want(conflicts int64) {
	s.t.Helper()
	got := auditJSON(s.t, s.database, s.redisURL)
	byCode := func(a, b audit.Fault) int { return cmp.Compare(a.Code, b.Code) }
	if diff := gocmp.Diff(slices.SortedFunc(slices.Values(s.faults), byCode), slices.SortedFunc(slices.Values(got.Faults), byCode)); diff != "" {
		s.t.Errorf("faults (-planted +found):\n%s", diff)
	}
	if n := got.FaultTotal(); n != int64(len(s.faults)) {
		s.t.Errorf("fault_counts has %d faults, want %d", n, len(s.faults))
	}
	if n := got.Abandoned[kgs.ReasonConflict]; n != conflicts {
		s.t.Errorf("%d keys are abandoned for a conflict, want %d", n, conflicts)
	}
	status, text := command(s.t, s.database, "--redis-url="+s.redisURL, "audit")
	if status != min(len(s.faults), 1) || got.status != status {
		s.t.Errorf("exit status %d, with --json %d, for %d faults", status, got.status, len(s.faults))
	}
	for _, f := range s.faults {
		if !strings.Contains(text, f.String()) {
			s.t.Errorf("the report does not contain the fault %q:\n%s", f, text)
		}
	}
}

// The test plants errors one after the other in the databases of a stopped service. After each
// error, the audit must find all planted errors and no others.
func TestAuditFindsErrorsInjectedIntoDatabases(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.want(0)
	taken := s.waiting(5)
	s.link(taken, "alias") // an alias may equal a key in the pool: the audit finds no fault and counts the key as abandoned
	s.want(1)
	for what, plant := range s.plants() {
		s.faults = append(s.faults, plant())
		s.want(1)
		if t.Failed() {
			t.Fatalf("the audit is wrong after %s was planted", what)
		}
	}
}

// plants returns functions. Each function plants an error and returns the fault that the audit
// must find.
func (s *fixture) plants() map[string]func() audit.Fault {
	return map[string]func() audit.Fault{
		"a key that is in the pool twice": func() audit.Fault {
			code := s.waiting(100)
			s.push(code)
			return audit.Fault{Kind: audit.FaultDuplicate, Code: code}
		},
		"a key that is linked and in the pool again": func() audit.Fault {
			s.push(s.linked[3])
			return audit.Fault{Kind: audit.FaultReused, Code: s.linked[3]}
		},
		"a key that is taken from the pool without a record": func() audit.Fault {
			return audit.Fault{Kind: audit.FaultMissing, Code: s.pop()}
		},
		"a link whose row is deleted": func() audit.Fault {
			s.exec(`DELETE FROM ranked_links WHERE code = $1`, s.linked[7])
			return audit.Fault{Kind: audit.FaultMissing, Code: s.linked[7]}
		},
		"a link with the code of a number that was never reserved": func() audit.Fault {
			code := s.space.Code(6, codespace.Size(6)-1)
			s.link(code, kgs.SourcePool)
			return audit.Fault{Kind: audit.FaultForeign, Code: code}
		},
		"a link with a code that no number has": func() audit.Fault {
			s.link("no_code", kgs.SourceLedger)
			return audit.Fault{Kind: audit.FaultForeign, Code: "no_code"}
		},
		"a key in the pool that was never reserved": func() audit.Fault {
			code := s.space.Code(6, codespace.Size(6)-2)
			s.push(code)
			return audit.Fault{Kind: audit.FaultForeign, Code: code}
		},
		"an alias with the rank of another code": func() audit.Fault {
			rank, _ := s.space.Rank("renamed")
			s.exec(`INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES ($1, 'changed', 'https://go.dev/', 'alias', now())`, rank)
			return audit.Fault{Kind: audit.FaultMisplaced, Code: "changed"}
		},
		"an alias with a negative rank": func() audit.Fault {
			s.exec(`INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES (-7, 'negative', 'https://go.dev/', 'alias', now())`)
			return audit.Fault{Kind: audit.FaultMisplaced, Code: "negative"}
		},
		"an alias without a rank in the table of ranks": func() audit.Fault {
			s.exec(`INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES (7, 'by-name', 'https://go.dev/', 'alias', now())`)
			return audit.Fault{Kind: audit.FaultMisplaced, Code: "by-name"}
		},
		"a second row of a code from the pool": func() audit.Fault {
			s.exec(`INSERT INTO unranked_links (code, url, source, created_at) VALUES ($1, 'https://go.dev/', 'pool', now())`, s.linked[9])
			return audit.Fault{Kind: audit.FaultMisplaced, Code: s.linked[9]}
		},
		"a key of the pool that the ledger also has in a batch": func() audit.Fault {
			code := s.waiting(300)
			length, n, err := s.space.Number(code)
			if err != nil {
				s.t.Fatal(err)
			}
			s.exec(`INSERT INTO kgs_ranges (id, length, lo, hi, state, epoch) VALUES (1000000, $1, $2, $3, 'batch', 1)`, length, n, n+1)
			return audit.Fault{Kind: audit.FaultDuplicate, Code: code}
		},
	}
}

// The database records the order of the links. If the recorded order is wrong, requests find no link that has a rank.
// If no order is recorded, or the program does not know the recorded order, the audit cannot judge where the rows
// belong.
func TestAuditFindsChangedOrderOfLinks(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.exec(`UPDATE link_order SET fingerprint = $1`, codespace.Plain().Fingerprint())
	if got := auditJSON(t, s.database, s.redisURL); got.FaultCounts[audit.FaultMisplaced] != int64(len(s.linked)) {
		t.Errorf("%d misplaced links, want %d: %s", got.FaultCounts[audit.FaultMisplaced], len(s.linked), got.stderr)
	}
	for _, change := range []string{`UPDATE link_order SET fingerprint = 'unknown'`, `DELETE FROM link_order`} {
		s.exec(change)
		if got := auditJSON(t, s.database, s.redisURL); got.status != 2 || !strings.Contains(got.stderr, "shortener reindex") {
			t.Errorf("after %s: exit status %d, %q; want 2 and advice", change, got.status, got.stderr)
		}
	}
}

func TestAuditExitsWithStatus2IfDatabaseOrPoolIsUnusable(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	fresh := "sqlite:" + filepath.Join(t.TempDir(), "fresh.db")
	if status, _, stderr := runShortener(t, "--database-url="+fresh, "migrate"); status != 0 {
		t.Fatal(stderr)
	}
	for what, r := range map[string]report{
		"no ledger":     auditJSON(t, fresh, ""),
		"no database":   auditJSON(t, "sqlite:"+filepath.Join(t.TempDir(), "none.db"), ""),
		"no schema":     auditJSON(t, testenv.PostgresURL(t), ""),
		"no Redis":      auditJSON(t, s.database, ""),
		"another Redis": auditJSON(t, s.database, testenv.RedisURL(t)),
		"no server":     auditJSON(t, s.database, "redis://127.0.0.1:1"),
	} {
		if r.status != 2 || !strings.HasPrefix(r.stderr, "shortener: audit: ") {
			t.Errorf("%s: exit status %d, %q; want 2 and the reason", what, r.status, r.stderr)
		}
	}
	if r := auditJSON(t, "mysql://", ""); r.status != 2 || !strings.HasPrefix(r.stderr, "shortener: DATABASE_URL ") {
		t.Errorf("bad settings: exit status %d, %q; want 2 and the setting", r.status, r.stderr)
	}
	if err := s.redis.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := auditJSON(t, s.database, s.redisURL); r.status != 2 || !strings.Contains(r.stderr, kgs.ErrNoEpoch.Error()) {
		t.Errorf("a pool without its state: exit status %d, %q; want 2 and the reason", r.status, r.stderr)
	}
}

func TestAuditNamesPostgresThatIsDown(t *testing.T) {
	t.Parallel()
	addr, err := machine.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	status, out := command(t, "postgres://someone:hidden@"+addr+"/links", "audit")
	want := fmt.Sprintf(`shortener: audit: cannot connect to the database "links" of DATABASE_URL as user "someone": %[1]s (127.0.0.1): `+
		"dial error: dial tcp %[1]s: connect: connection refused\n", addr)
	if status != 2 || out != want {
		t.Errorf("exit status %d and output\n%s, want 2 and\n%s", status, out, want)
	}
}
