package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/kgs/codespace"
	"keypool/web/admin"
)

func postgresPoolSettings(t *testing.T, database, take string) config.Server {
	t.Helper()
	s := settings(t, database, "")
	s.KeySource, s.KGSTake = "postgres-pool", take
	return s
}

// Two servers create links, and one of them refills the pool. During an orderly stop, each server
// returns its unused keys. The audit accounts for every key.
func TestAuditAccountsForEveryKeyOfServersWithPostgresPool(t *testing.T) {
	t.Parallel()
	for _, take := range []string{"delete", "reserve"} {
		t.Run(take, func(t *testing.T) {
			t.Parallel()
			database := testenv.PostgresURL(t)
			s := postgresPoolSettings(t, database, take)
			one := start(t, s)
			s.Worker.On = false
			other := start(t, s)
			other.await("a full pool", fullWithBatch)
			seen := make(map[string]bool)
			for i := range 300 { // more than a batch of each server
				for _, r := range []*running{one, other} {
					code := r.shorten(fmt.Sprintf("https://go.dev/%d", i))
					if seen[code] {
						t.Fatalf("the code %s was assigned twice", code)
					}
					seen[code] = true
				}
			}
			other.await("keys from the pool", func(s admin.Status) bool { return *s.ServingFrom == "batch" })
			other.stop()
			if r := auditJSON(t, database, ""); r.status != 0 || r.PostgresPool == nil || r.Links[kgs.SourcePostgresPool] == 0 {
				t.Errorf("audit while one server runs: exit status %d, %s, %+v", r.status, r.stderr, r.Accounts)
			}
			one.stop()
			r := auditJSON(t, database, "")
			links := r.Links[kgs.SourcePostgresPool]
			want := audit.PostgresPoolAccounts{Available: r.PostgresPool.Available, Used: links, UsedLinked: links}
			if diff := gocmp.Diff(want, *r.PostgresPool); r.status != 0 || diff != "" {
				t.Errorf("last audit: exit status %d, %v (-want +got):\n%s", r.status, r.Faults, diff)
			}
		})
	}
}

func TestAuditReportsLinkWhoseKeyIsNotRecordedAsUsed(t *testing.T) {
	t.Parallel()
	database := testenv.PostgresURL(t)
	r := start(t, postgresPoolSettings(t, database, "delete"))
	r.await("a full pool", fullWithBatch)
	code := r.shorten("https://go.dev/")
	r.stop()
	stopped := &fixture{t: t, database: database}
	stopped.openDatabase()
	stopped.exec(`DELETE FROM used_keys WHERE key = $1`, code)
	want := []audit.Fault{{Kind: audit.FaultUnrecorded, Code: code}}
	if diff := gocmp.Diff(want, auditJSON(t, database, "").Faults); diff != "" {
		t.Errorf("faults (-planted +found):\n%s", diff)
	}
	status, text := command(t, database, "audit")
	if status != 1 || !strings.Contains(text, want[0].String()) || !strings.Contains(text, "\nPostgreSQL pool: 10") {
		t.Errorf("exit status %d:\n%s", status, text)
	}
}

func TestServerUsesFallbackIfPostgresPoolIsEmpty(t *testing.T) {
	t.Parallel()
	s := postgresPoolSettings(t, testenv.PostgresURL(t), "delete")
	s.Worker.On = false
	r := start(t, s)
	r.wantStatus(r.shorten("https://go.dev/"), http.StatusFound, "https://go.dev/")
	r.await("the fallback", func(s admin.Status) bool { return *s.ServingFrom == "fallback" })
}

// The pool is larger than the space of three characters, so it gets longer codes before this space is full.
func TestPostgresPoolContinuesWithLongerCodes(t *testing.T) {
	t.Parallel()
	database := testenv.PostgresURL(t)
	s := postgresPoolSettings(t, database, "delete")
	s.CodeLength, s.PoolCapacity = 3, 250_000
	r := start(t, s)
	r.await("a full pool", func(s admin.Status) bool { return fullWithBatch(s) && *s.PoolKeys >= 240_000 }) // the server has the rest
	r.stop()
	db, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var short, long int64
	err = db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE length(key) = 3), count(*) FILTER (WHERE length(key) = 4) FROM available_keys`).Scan(&short, &long)
	if size := codespace.Size(3); err != nil || short < size/2 || short > size*3/4 || long == 0 {
		t.Errorf("the pool has %d codes of three characters and %d of four (error %v), want half of the %d codes of three characters", short, long, err, size)
	}
}
