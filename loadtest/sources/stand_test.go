//go:build drill

package sources

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

// stand is a source at work.
type stand struct {
	source   source
	code     *regexp.Regexp
	programs string // the directory of the programs
	dir      string // for what the rules write
	bed      *testbed.Bed
	postgres *testbed.Server

	settings []string           // of both servers
	draws    []*testbed.Server  // what the source draws on besides postgres
	workers  []*testbed.Program // programs of the project among that

	helped *server // the default fallback helps it out
	strict *server // no fallback: all of its codes are the source's own
}

// sizes keeps what would be large small: nothing here is about how much there is of it.
func sizes() []string { return []string{"KGS_POOL_CAPACITY=20000", "KGS_BATCH_MAX=500"} }

// newStand puts the source to work, and returns when both servers make links with its keys.
func newStand(t *testing.T, s source, programs string) *stand {
	t.Helper()
	bed, err := testbed.New(programs)
	if err != nil {
		t.Fatal(err)
	}
	st := &stand{source: s, code: regexp.MustCompile("^(?:" + s.code + ")$"), programs: programs, dir: t.TempDir(), bed: bed}
	t.Cleanup(func() {
		if t.Failed() {
			st.tell(t)
		}
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	if err := st.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}

func (st *stand) start(ctx context.Context) (err error) {
	if st.postgres, err = st.bed.Postgres(ctx); err != nil {
		return err
	}
	st.settings = slices.Concat(sizes(), []string{"DATABASE_URL=" + st.postgres.URL}, st.source.settings)
	if st.source.draws != nil {
		if err := st.source.draws(ctx, st); err != nil {
			return err
		}
	}
	if st.helped, err = st.server(ctx); err != nil {
		return err
	}
	if st.strict, err = st.server(ctx, "FALLBACK=none"); err != nil {
		return err
	}
	return errors.Join(st.awaitSource(ctx, st.helped), st.awaitSource(ctx, st.strict))
}

func (st *stand) servers() []*server { return []*server{st.helped, st.strict} }

// database makes one more database on the PostgreSQL of the links.
func (st *stand) database(ctx context.Context, name string) (string, error) {
	address, err := url.Parse(st.postgres.URL)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, st.postgres.URL)
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	address.Path = "/" + name
	return address.String(), errors.Join(err, conn.Close(ctx))
}

// tell shows what the servers said last.
func (st *stand) tell(t *testing.T) {
	for _, s := range st.servers() {
		if s == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.Dir(), "server.log"))
		t.Logf("the server at %s said, error %v:\n%s", s.Admin, err, text[max(0, len(text)-4000):])
	}
}

func (st *stand) close() error {
	for _, s := range st.servers() {
		if s != nil {
			s.client.Close()
		}
	}
	if err := st.bed.Close(); err != nil {
		return fmt.Errorf("close the bed: %w", err)
	}
	return nil
}
