package app

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"keypool/internal/testenv"
)

// The server of this test accepts connections but never answers, like a process that is suspended.
func TestWorkIsCancelledIfDatabaseNeverAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	c := &Core{Common: settings(t, "postgres://user@"+silent.Addr().String()+"/db?sslmode=disable").Common}
	began := time.Now()
	err = c.WhileAnswering(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, errNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want errNoAnswer and the error of the work", err)
	}
	if took := time.Since(began); took > 18*time.Second {
		t.Errorf("the work ended after %v, want at most 18 s", took)
	}
}

// A refused connection counts as an answer, because the error of the work explains the failure better than errNoAnswer.
func TestErrorOfWorkIsReturnedIfDatabaseAnswersOrRefuses(t *testing.T) {
	t.Parallel()
	errWork := errors.New("work")
	for _, url := range []string{testenv.PostgresURL(t), "postgres://user@127.0.0.1:1/db"} {
		c := &Core{Common: settings(t, url).Common}
		err := c.WhileAnswering(t.Context(), func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * probeInterval):
				return errWork
			}
		})
		if !errors.Is(err, errWork) {
			t.Errorf("error %v, want the error of the work", err)
		}
	}
}
