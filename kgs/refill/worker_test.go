package refill

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
)

// stubFiller is a Filler whose pool is a number in memory.
type stubFiller struct {
	mu       sync.Mutex
	size     int64
	partial  []int64 // numbers of keys that arrive in the next calls of Fill; later, all n keys arrive
	err      error
	calls    int
	released bool
}

func (s *stubFiller) Prepare(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.err
}

func (s *stubFiller) Len(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, nil
}

func (s *stubFiller) Fill(_ context.Context, n int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) > 0 {
		n, s.partial = s.partial[0], s.partial[1:]
	}
	s.size += n
	return n, nil
}

func (s *stubFiller) Release(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	return nil
}

func (s *stubFiller) set(size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size, s.err = size, err
}

func (s *stubFiller) get() (size int64, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, s.calls
}

func newTestWorker(filler Filler) *Worker {
	return NewWorker(WorkerConfig{
		Filler: filler, Capacity: 10_000,
		Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
}

func TestWorkerKeepsPoolBetweenLowWaterMarkAndCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filler := &stubFiller{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- newTestWorker(filler).Run(ctx) }()
		synctest.Wait()
		if size, _ := filler.get(); size != 10_000 {
			t.Errorf("the pool was filled to %d, want its capacity of 10000", size)
		}
		filler.set(9_000, nil) // the low-water mark
		<-time.After(time.Second)
		if size, _ := filler.get(); size != 9_000 {
			t.Errorf("a pool at the low-water mark was refilled to %d keys, want no refill", size)
		}
		filler.set(8_999, nil)
		<-time.After(time.Second)
		if size, _ := filler.get(); size != 10_000 {
			t.Errorf("a second after the pool was below the low-water mark, it holds %d keys, want 10000", size)
		}
		cancel()
		if err := <-done; err != nil || !filler.released {
			t.Errorf("Run = %v, released = %v, want nil and true", err, filler.released)
		}
	})
}

// slowFiller takes a second to push a chunk.
type slowFiller struct{ stubFiller }

func (s *slowFiller) Fill(ctx context.Context, n int64) (int64, error) {
	time.Sleep(time.Second)
	return s.stubFiller.Fill(ctx, n)
}

// The rate must grow before a long refill ends. In this test, the worker pushes ten chunks of 1,000 keys, one each second.
func TestRateOfWorkerGrowsDuringRefillAndFallsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(&slowFiller{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(5500 * time.Millisecond)
		if rate := w.Rate(); rate < 800 || rate > 1000 {
			t.Errorf("after half of the refill, the rate is %v, want about 1,000", rate)
		}
		time.Sleep(15 * time.Second)
		if rate := w.Rate(); rate <= 0 || rate > 100 {
			t.Errorf("ten seconds after the refill, the rate is %v, want below 100", rate)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The rest of a range that a dead worker reserved may be empty, so that Fill adds no keys to a pool that is not full.
func TestWorkerContinuesToFillPoolAfterFillThatAddsNoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filler := &stubFiller{size: 8_900, partial: []int64{600, 0}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- newTestWorker(filler).Run(ctx) }()
		<-time.After(time.Second)
		if size, _ := filler.get(); size != 10_000 {
			t.Errorf("the pool holds %d keys, want its capacity of 10000", size)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWorkerBacksOffInOutageAndThenFillsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filler := &stubFiller{err: errors.New("no connection")}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- newTestWorker(filler).Run(ctx) }()
		<-time.After(20 * time.Second)
		if _, calls := filler.get(); calls > 25 {
			t.Errorf("%d attempts in 20 s of an outage, want a delay that grows to one second", calls)
		}
		filler.set(0, nil)
		<-time.After(3 * time.Second)
		if size, _ := filler.get(); size != 10_000 {
			t.Errorf("3 s after the outage the pool holds %d keys, want 10000", size)
		}
		cancel()
		<-done
	})
}

func TestSupervisorReplacesWorkerWhenAskedToRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fillers []*stubFiller
		s := NewSupervisor(func() Runner {
			fillers = append(fillers, &stubFiller{})
			return newTestWorker(fillers[len(fillers)-1])
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		s.Restart()
		synctest.Wait()
		if len(fillers) != 2 || !fillers[0].released || fillers[1].released {
			t.Errorf("after a restart: %d workers, the first worker called Release: %v; want 2 and true", len(fillers), fillers[0].released)
		}
		if size, _ := fillers[1].get(); size != 10_000 {
			t.Errorf("the new worker filled the pool to %d keys, want 10000", size)
		}
		cancel()
		if err := <-done; err != nil || !fillers[1].released {
			t.Errorf("Run = %v, the second worker called Release: %v; want nil and true", err, fillers[1].released)
		}
	})
}

// hungFiller blocks in its first call until freed is closed.
type hungFiller struct {
	stubFiller
	freed chan struct{}
}

func (s *hungFiller) Prepare(context.Context) error {
	<-s.freed
	return errors.New("too late")
}

// The test requests a second restart while the supervisor waits for a worker that hangs. This
// restart must not replace the new worker.
func TestSupervisorReplacesHungWorkerOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &hungFiller{freed: make(chan struct{})}
		fillers := []Filler{&stubFiller{}, &stubFiller{}, hung}
		built := 0
		s := NewSupervisor(func() Runner {
			built++
			return newTestWorker(fillers[len(fillers)-built])
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait() // the first worker hangs
		s.Restart()
		synctest.Wait()
		s.Restart()
		<-time.After(patience + time.Second)
		if built != 2 {
			t.Errorf("%d workers were built, want two: the worker that hangs and its replacement", built)
		}
		cancel()
		close(hung.freed)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
