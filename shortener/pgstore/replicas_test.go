package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/internal/testenv"
	"keypool/shortener"
	"keypool/shortener/storetest"
)

// cluster is a primary that has one link, and a replica whose lag is measured.
type cluster struct {
	primary, standby *testenv.Server
	store            *Store
	replicas         *Replicas
	old              shortener.Link
	notes            chan error // the result of the latest measurement
	stop             func()     // ends the measurements
}

// newCluster starts a primary and a standby with the given settings, and begins to measure the lag.
func newCluster(t *testing.T, maxLag time.Duration, settings ...string) *cluster {
	t.Helper()
	c := &cluster{primary: testenv.StartPostgres(t), old: storetest.Link("old000")}
	pool := open(t, c.primary.URL)
	storetest.MigratePostgres(t, pool)
	c.store = New(pool, storetest.Plain())
	storetest.Insert(t, c.store, c.old)
	c.standby = testenv.StartStandby(t, c.primary, settings...)
	c.watch(t, maxLag, c.standby.URL)
	return c
}

// watch begins to measure the lag of the replica at url. Afterwards, c.replicas and c.notes belong to this
// replica.
func (c *cluster) watch(t *testing.T, maxLag time.Duration, url string) {
	t.Helper()
	replicas := NewReplicas(c.store, []*pgxpool.Pool{open(t, url)}, maxLag, NewReplicaMetrics(prometheus.NewRegistry()))
	notes := make(chan error, 1)
	c.replicas, c.notes = replicas, notes
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		err := replicas.Watch(ctx, func(_ int, err error) {
			if used := testutil.ToFloat64(replicas.metrics.used); (used == 1) != (err == nil) {
				t.Errorf("shortener_replica_used is %v after the measurement %v", used, err)
			}
			if err == nil {
				if lag := testutil.ToFloat64(replicas.metrics.lags); lag > maxLag.Seconds() {
					t.Errorf("shortener_replica_lag_seconds is %v, above the maximum lag %v, but look-ups ask the replica", lag, maxLag)
				}
			}
			select {
			case <-notes:
			default:
			}
			notes <- err
		})
		if err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	c.stop = func() { cancel(); watch.Wait() }
	t.Cleanup(c.stop)
}

// await waits for a measurement whose error is want. If want is an error, await ends the test after 200 measurements that
// found no error, which take at least 20 s.
func (c *cluster) await(t *testing.T, want error) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	var last error
	for accepted := 0; ; {
		select {
		case last = <-c.notes:
			if errors.Is(last, want) {
				return
			}
			if last == nil {
				accepted++
			}
			if accepted == 200 {
				t.Fatalf("%d measurements found no error, want %v", accepted, want)
			}
		case <-timeout:
			t.Fatalf("the last measurement: %v, want %v", last, want)
		}
	}
}

// attempts is the maximum number of look-ups that a test makes until a replica answers. On a busy machine, a look-up or a
// measurement may reach its time limit, and a measurement may be old when the look-up begins.
const attempts = 50

// wantAnswers looks up a link (want) until a counter (result) increases. Each look-up must return the link. If the primary
// is down, a look-up may fail instead. The look-up that increases the counter must increase it by 1.
func (c *cluster) wantAnswers(t *testing.T, result prometheus.Counter, want shortener.Link) {
	t.Helper()
	before := testutil.ToFloat64(result)
	var last error
	for range attempts {
		c.await(t, nil)
		link, err := c.replicas.Lookup(t.Context(), want.Code)
		if last = err; !Answered(err) && c.replicas.log.stopped.Load() != nil { // the primary does not answer
			continue
		}
		if err != nil || !shortener.Equal(link, want) {
			t.Fatalf("Lookup: %+v, %v; want %+v", link, err, want)
		}
		switch after := testutil.ToFloat64(result); after {
		case before:
		case before + 1:
			return
		default:
			t.Fatalf("look-ups with this result: %v, want %v", after, before+1)
		}
	}
	t.Errorf("none of %d look-ups has this result; the error of the last look-up: %v", attempts, last)
}

// wantPosition measures the position of the server of s, which must be a primary. It repeats a measurement that reaches
// its time limit.
func wantPosition(t *testing.T, s *Store) position {
	t.Helper()
	err := context.DeadlineExceeded
	var p position
	for n := 0; n < attempts && errors.Is(err, context.DeadlineExceeded); n++ {
		p, err = s.positionOf(t.Context(), primaryPosition)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestReplicaAnswersLookupsOfLinksThatItHas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Hour)
	c.wantAnswers(t, c.replicas.metrics.found, c.old)
	if _, err := c.replicas.Lookup(t.Context(), "none00"); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup of an unknown code: %v, want ErrNotFound", err)
	}
}

// The replica lags by an hour, which is less than the maximum lag. So look-ups ask the replica first,
// although it lacks the new link.
func TestPrimaryAnswersLookupsOfLinksThatTheReplicaLacks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2*time.Hour, "recovery_min_apply_delay=1h")
	c.await(t, nil)
	created := storetest.Link("new000")
	storetest.Insert(t, c.store, created)
	c.wantAnswers(t, c.replicas.metrics.missing, created)
	c.wantAnswers(t, c.replicas.metrics.found, c.old)
}

func TestLookupsSkipReplicaThatLags(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Second, "recovery_min_apply_delay=1h")
	c.await(t, nil)
	changed := c.old
	changed.DeletedAt = storetest.Moment().UTC()
	if err := c.store.Change(t.Context(), c.old, changed); err != nil {
		t.Fatal(err)
	}
	c.await(t, errLag)
	link, err := c.replicas.Lookup(t.Context(), c.old.Code)
	if err != nil || link.DeletedAt.IsZero() {
		t.Errorf("Lookup of a deleted link while the replica lags: %+v, %v; want a tombstone", link, err)
	}
}

func TestReplicaAnswersWhileThePrimaryIsDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Second)
	c.await(t, nil)
	killed := time.Now()
	c.primary.Kill()
	for range 30 { // 30 measurements take three times the maximum lag
		c.await(t, nil)
	}
	c.wantAnswers(t, c.replicas.metrics.found, c.old)
	if at := c.replicas.Answered(time.Now()); at.After(killed.Add(lagTimeout)) {
		t.Errorf("the primary answered %v after the kill", at.Sub(killed))
	}
	if _, err := c.replicas.Lookup(t.Context(), "none00"); err == nil || errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup of a code that the replica lacks: %v, want another error than ErrNotFound", err)
	}
	c.primary.Restart()
	created := storetest.Link("new000")
	storetest.Insert(t, c.store, created)
	c.await(t, nil)
	if link, err := c.replicas.Lookup(t.Context(), created.Code); err != nil || !shortener.Equal(link, created) {
		t.Errorf("Lookup after the restart of the primary: %+v, %v", link, err)
	}
	now := time.Now()
	for n := 0; n < attempts && !c.replicas.Answered(now).Equal(now); n++ {
		c.await(t, nil)
	}
	if at := c.replicas.Answered(now); !at.Equal(now) {
		t.Errorf("after the restart, the primary last answered %v ago", now.Sub(at))
	}
}

// The primary may stop long before a measurement of its position shows this.
func TestReplicaAnswersIfPrimaryStoppedAfterLastMeasurement(t *testing.T) {
	t.Parallel()
	primary, old := testenv.StartPostgres(t), storetest.Link("old000")
	pool := open(t, primary.URL)
	storetest.MigratePostgres(t, pool)
	store := New(pool, storetest.Plain())
	storetest.Insert(t, store, old)
	standby := testenv.StartStandby(t, primary)
	r := NewReplicas(store, []*pgxpool.Pool{open(t, standby.URL)}, 0, NewReplicaMetrics(prometheus.NewRegistry())) // any lag is too much
	replica := r.replicas[0]
	var last time.Time
	var sampled bool
	current := func() bool { return replica.applied.Load() != nil && replica.applied.Load().Equal(last) }
	for n := 0; n < attempts && !current(); n++ { // on a busy machine, a measurement may reach its time limit
		r.log.addSample(t.Context(), store)
		last, sampled = r.log.last()
		_, err := r.measure(t.Context(), replica)
		if err != nil && !errors.Is(err, errLag) && !errors.Is(err, errUnknownLag) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if !sampled || !current() {
		t.Fatalf("no position of the primary and the replica after %d measurements", attempts)
	}
	// If a look-up reaches its time limit because the primary hangs, look-ups still ask the replica.
	primary.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Lookup(ctx, old.Code); !errors.Is(err, context.DeadlineExceeded) || replica.applied.Load() == nil {
		t.Errorf("Lookup while the primary hangs: %v; want DeadlineExceeded, and a replica that look-ups still ask", err)
	}
	primary.Resume()
	primary.Kill()
	wantFound := func(when string, applied *time.Time) {
		t.Helper()
		var link shortener.Link
		err := errors.New("no look-up")
		for n := 0; n < attempts && err != nil; n++ { // the replica may reach the time limit of a look-up or of a measurement
			replica.applied.Store(applied)
			link, err = r.Lookup(t.Context(), old.Code)
		}
		if err != nil || !shortener.Equal(link, old) {
			t.Errorf("%s: Lookup of a link that the replica has: %+v, %v", when, link, err)
		}
	}
	wantFound("the primary is down", &last)
	wantFound("the replica did not answer in time before", nil)
	before := last.Add(-time.Minute)
	wantFound("the last measurement of the replica is old", &before)
	standby.Pause()
	// The look-up begins a measurement. When the measurement ends, it removes the time up to which the replica has applied
	// changes. So if this time is still present after the look-up, the look-up did not wait for the end of the measurement.
	left := false
	for n := 0; n < attempts && !left; n++ { // on a busy machine, the measurement may end before the test reads the time
		replica.applied.Store(&before)
		short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := r.Lookup(short, old.Code)
		cancelShort()
		if err == nil {
			t.Fatal("Lookup succeeds although no server answers")
		}
		left = replica.applied.Load() != nil
	}
	if !left {
		t.Error("Lookup waits for a measurement after its context has ended")
	}
	standby.Resume()
	primary.Restart()
}

func TestFrozenReplicaDelaysOnlyOneLookup(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Hour)
	c.await(t, nil)
	// If a measurement got its answer before the pause and ended after the first look-up, the second look-up would ask the
	// frozen replica too. So stop the measurements.
	c.stop()
	for range attempts {
		if c.replicas.measureAll(t.Context()); c.replicas.next(time.Now()) != nil {
			break
		}
	}
	c.standby.Pause()
	defer c.standby.Resume()
	for range 3 {
		if link, err := c.replicas.Lookup(t.Context(), c.old.Code); err != nil || !shortener.Equal(link, c.old) {
			t.Fatalf("Lookup while the replica is frozen: %+v, %v", link, err)
		}
	}
	if failed := testutil.ToFloat64(c.replicas.metrics.failed); failed != 1 {
		t.Errorf("look-ups that waited for a frozen replica: %v, want 1", failed)
	}
	c.standby.Resume()
	for range attempts { // a measurement or a look-up may reach its time limit again
		c.replicas.measureAll(t.Context())
		if link, err := c.replicas.Lookup(t.Context(), c.old.Code); err != nil || !shortener.Equal(link, c.old) {
			t.Fatalf("Lookup after the replica was frozen: %+v, %v", link, err)
		}
		if testutil.ToFloat64(c.replicas.metrics.found) > 0 {
			return
		}
	}
	t.Error("the replica that was frozen is not asked again")
}

// A server that is not a replica of the primary may have other links with the same codes.
func TestLookupsSkipReplicaThatDoesNotFollowPrimary(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Hour)
	c.await(t, nil)
	c.watch(t, time.Hour, c.primary.URL)
	c.await(t, errNotReplica)

	other := newCluster(t, time.Hour)
	c.watch(t, time.Hour, other.standby.URL)
	c.await(t, errOtherCluster)
	if asked := c.replicas.next(time.Now()); asked != nil {
		t.Error("a replica of another primary is asked")
	}
}

// In this test, a standby is promoted. Another standby has applied more of the former timeline. So this other
// standby has a later position than the new primary, but lacks the changes of the new primary.
func TestLookupsSkipReplicaOfFormerTimeline(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Hour)
	c.await(t, nil)
	promoted := testenv.StartStandby(t, c.primary)
	promoted.Promote()
	for n := range 2000 {
		storetest.Insert(t, c.store, storetest.Link(fmt.Sprintf("former%d", n)))
	}
	former := c.store
	c.store = New(open(t, promoted.URL), storetest.Plain())
	if behind, ahead := wantPosition(t, c.store), wantPosition(t, former); behind.lsn >= ahead.lsn {
		t.Fatalf("the new primary is at %+v, and the former primary at %+v", behind, ahead)
	}
	c.watch(t, time.Hour, c.standby.URL)
	c.await(t, errTimeline)
	if asked := c.replicas.next(time.Now()); asked != nil {
		t.Error("a replica of the former timeline is asked")
	}
	c.watch(t, time.Hour, testenv.StartStandby(t, promoted).URL)
	c.await(t, nil)
}
