package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"keypool/internal/testenv"
)

// programs is the directory of the built programs, which all tests of the package share.
var programs string

func TestMain(m *testing.M) {
	logging.Disable() // tests break connections to Redis on purpose
	code, err := build(m)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "keypool-lab-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(programs)) }()
	if err := testenv.Build(context.Background(), programs, "keypool/cmd/shortener", "keypool/cmd/kgs"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// run is a Run that uses a test. It records failures without failing the test.
type run struct {
	*testing.T
	dir      string
	settings []string

	mu       sync.Mutex
	failures []string
}

func newRun(t *testing.T) *run { return &run{T: t, dir: programs} }

func (r *run) ProgramDir() string { return r.dir }
func (r *run) Settings() []string { return r.settings }

func (r *run) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *run) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// do calls f in a separate goroutine, because Fatalf ends its goroutine. It returns the failures.
func (r *run) do(f func()) []string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// mustPass runs f and fails the test if f records a failure.
func mustPass(t *testing.T, f func(*run)) {
	t.Helper()
	r := newRun(t)
	t.Cleanup(func() {
		for _, failure := range r.failures {
			t.Error(failure)
		}
	})
	if failures := r.do(func() { f(r) }); len(failures) > 0 {
		t.FailNow()
	}
}
