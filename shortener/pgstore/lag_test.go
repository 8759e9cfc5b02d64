package pgstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/shortener/storetest"
)

// In this test, an older copy replaces the files of the primary. The timeline stays the same, and the replica has links
// that the primary has lost.
func TestLookupsSkipReplicaAheadOfRestoredPrimary(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Hour)
	c.await(t, nil)
	c.primary.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	copyFiles(t, c.primary.Dir(), backup)
	c.primary.Restart()
	again := New(open(t, c.primary.URL), storetest.Plain()) // the stop has closed the connections of c.store
	for n := range 100 {
		storetest.Insert(t, again, storetest.Link(fmt.Sprintf("lost%d", n)))
	}
	ahead := wantPosition(t, again)
	replica := New(open(t, c.standby.URL), storetest.Plain())
	for timeout := time.After(time.Minute); ; {
		p, err := replica.positionOf(t.Context(), replicaPosition)
		if err == nil && p.lsn >= ahead.lsn {
			break
		}
		select {
		case <-timeout:
			t.Fatalf("the replica is at %+v (error %v), want %+v", p, err, ahead)
		default:
		}
	}
	c.primary.Stop()
	if err := os.RemoveAll(c.primary.Dir()); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, backup, c.primary.Dir())
	c.primary.Restart()
	c.await(t, errAhead) // with a Replicas that existed before the restore
	if asked := c.replicas.next(time.Now()); asked != nil {
		t.Error("a replica that is ahead of the primary is asked")
	}
	c.watch(t, time.Hour, c.standby.URL)
	c.await(t, errAhead) // with a new Replicas
	if used := testutil.ToFloat64(c.replicas.metrics.found); used > 0 {
		t.Errorf("the replica answered %v look-ups", used)
	}
}

// copyFiles copies a directory with the owners of its files.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the files: %v: %s", err, out)
	}
}

// A replica that was ahead of the primary stays at its position. It stays unused even after the primary has passed this
// position. A replica that is built again has another position.
func TestReplicaThatWasAheadIsUnusedUntilItsPositionChanges(t *testing.T) {
	t.Parallel()
	var r replica
	var log primaryLog
	follows := func(lsn int64) error { return r.follows(position{lsn: lsn}, &log) }
	sampled := func(lsn int64) { log.samples = append(log.samples, sample{time.Now(), lsn}) }
	log.history = 1
	sampled(100)
	steps := []struct {
		lsn  int64 // position of the replica
		want error
		next int64 // position of the primary after the measurement of the replica
	}{
		{90, errUnknownLag, 110}, {120, nil, 120}, {123, nil, 121}, {125, errUnknownLag, 121}, {125, errAhead, 124}, {125, errAhead, 125}, {125, errAhead, 130},
		{125, errAhead, 130}, {128, nil, 131},
	}
	for i, step := range steps {
		if err := follows(step.lsn); !errors.Is(err, step.want) {
			t.Errorf("step %d, position %d: %v, want %v", i+1, step.lsn, err, step.want)
		}
		sampled(step.next)
	}
	log.history++
	if err := follows(130); err != nil {
		t.Errorf("after a change of the history, with a later sample: %v", err)
	}
	log.history++
	log.samples = nil
	if err := follows(130); !errors.Is(err, errUnknownLag) {
		t.Errorf("after a change of the history, without a later sample: %v, want errUnknownLag", err)
	}
}

func TestPrimaryLogFindsNewestSampleAtOrBeforePosition(t *testing.T) {
	t.Parallel()
	start := time.Now()
	l := primaryLog{identity: "a"}
	for i := range 5 {
		l.samples = append(l.samples, sample{start.Add(time.Duration(i) * time.Second), int64(10 * i)})
	}
	for lsn, want := range map[int64]int{0: 0, 9: 0, 10: 1, 39: 3, 40: 4, 1000: 4} {
		if at, err := l.applied(position{identity: "a", lsn: lsn}); err != nil || !at.Equal(l.samples[want].at) {
			t.Errorf("applied at position %d: %v, %v; want sample %d", lsn, at, err, want)
		}
	}
	if _, err := l.applied(position{identity: "a", lsn: -1}); !errors.Is(err, errUnknownLag) {
		t.Errorf("applied before all samples: %v, want errUnknownLag", err)
	}
	if _, err := l.applied(position{identity: "b", lsn: 10}); !errors.Is(err, errOtherCluster) {
		t.Errorf("applied of another cluster: %v, want errOtherCluster", err)
	}
}
