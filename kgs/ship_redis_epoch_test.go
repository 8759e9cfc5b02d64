package kgs

import (
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestShipperOpensPoolThatIsBehind(t *testing.T) {
	t.Parallel()
	d := newDock(t)
	s := d.open("a")
	d.ship(s, 100, 100)
	status, err := s.cfg.Pool.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.OpenEpoch(t.Context(), 1, status.RunID); err != nil { // and crashes
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 2)
	if _, _, err := d.OpenEpoch(t.Context(), 2, "another run"); err != nil {
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 4)
	d.ship(s, 10, 10)
}

// TestShipperAfterFlush loses the pool in the run that the ledger's epoch is of.
func TestShipperAfterFlush(t *testing.T) {
	t.Parallel()
	d := newDock(t)
	s := d.open("a")
	s.begin(t, 100, 50)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Ship(t.Context(), 10); n != 0 || !errors.Is(err, ErrNoEpoch) {
		t.Errorf("Ship = %d, %v, want ErrNoEpoch", n, err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 2)
	d.ship(s, 10, 10)
	if got, err := d.space.Runs(drain(t, s.cfg.Pool, 100)); err != nil || !slices.Equal(got, []Run{{6, 100, 110}}) {
		t.Errorf("the new pool held %v (%v), want only new numbers", got, err)
	}
}

func TestShipperRefusesPoolThatIsAhead(t *testing.T) {
	t.Parallel()
	d := newDock(t)
	s := d.open("a")
	openEpoch(t, s.cfg.Pool, 2)
	for range 2 {
		if _, err := s.Size(t.Context()); err == nil {
			t.Error("a pool of an epoch that the ledger does not know of passed")
		}
	}
	if n, err := s.Ship(t.Context(), 10); n != 0 || !errors.Is(err, ErrFenced) {
		t.Errorf("Ship = %d, %v, want ErrFenced", n, err)
	}
	if status, err := s.cfg.Pool.Status(t.Context()); status.Keys != 0 || err != nil {
		t.Errorf("the pool is %+v, %v, want it empty", status, err)
	}
}

// TestShipperMeetsNewEpoch has another worker open an epoch, and the pool for it,
// between a shipper's looks at the ledger and at the pool.
func TestShipperMeetsNewEpoch(t *testing.T) {
	t.Parallel()
	d := newDock(t)
	s, other := d.open("a"), d.open("b")
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	epoch, err := d.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.wantSize(other, 0)
	d.ship(other, 10, 10)
	if err := s.mustKnow(t.Context(), epoch.Number+1); err != nil {
		t.Errorf("the ledger is accused: %v", err)
	}
	if err := s.openEpoch(t.Context(), epoch.Number, epoch.Pool); !errors.Is(err, ErrNoEpoch) {
		t.Errorf("a late openEpoch: %v, want ErrNoEpoch", err)
	}
	d.wantSize(s, 10)
	d.wantEpoch(s, 2)
}

func TestShippersOpenOneEpoch(t *testing.T) {
	t.Parallel()
	d := newDock(t)
	first := d.open("first")
	d.ship(first, 100, 100)
	epoch, err := d.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shippers := make([]*RedisShipper, 16)
	for i := range shippers {
		shippers[i] = d.shipper(string(rune('a' + i)))
		d.wantSize(shippers[i], 100)
	}
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	// All have seen the same epoch of the ledger, and the pool lost.
	lost := inParallel(t, func(i int) (float64, error) {
		err := shippers[i].openEpoch(t.Context(), epoch.Number, epoch.Pool)
		if errors.Is(err, ErrNoEpoch) {
			err = nil // another one was faster
		}
		return testutil.ToFloat64(shippers[i].cfg.Metrics.abandons.WithLabelValues(ReasonEpoch)), err
	})
	var sum float64
	for _, n := range lost {
		sum += n
	}
	if sum != 100 {
		t.Errorf("16 workers together count %v keys lost with the epoch, want 100", sum)
	}
	d.wantSize(first, 0)
	d.wantEpoch(first, 2)
}
