//go:build drill

package sources

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"keypool/loadtest/testbed"
)

// stand is a source at work.
type stand struct {
	source   source
	code     *regexp.Regexp
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
	st := &stand{source: s, code: regexp.MustCompile("^(?:" + s.code + ")$"), dir: t.TempDir(), bed: bed}
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
	if st.source.on != nil {
		if err := st.source.on(ctx, st); err != nil {
			return err
		}
	}
	if st.helped, err = st.server(ctx); err != nil {
		return err
	}
	if st.strict, err = st.server(ctx, "FALLBACK=none"); err != nil {
		return err
	}
	return st.awaitBoth(ctx)
}

func (st *stand) servers() []*server { return []*server{st.helped, st.strict} }

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
