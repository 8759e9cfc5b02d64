package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// The order of the links must not change under a process that has just registered as a holder.
func TestUnusedLockFindsNewHolder(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		unused, err := l.CheckUnused(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lock := func() error {
			tx, err := l.DB.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return errors.Join(unused.Lock(t.Context(), tx), tx.Rollback())
		}
		if err := lock(); err != nil {
			t.Errorf("Lock without holders: %v", err)
		}
		if err := l.Renew(t.Context(), "new"); err != nil {
			t.Fatal(err)
		}
		if err := lock(); !errors.Is(err, ledger.ErrInUse) {
			t.Errorf("Lock after a holder registered: %v, want ErrInUse", err)
		}
	})
}

// While the lock is held, no process can register as a holder.
func TestUnusedLockKeepsHoldersOut(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		unused, err := l.CheckUnused(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx, err := l.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := unused.Lock(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Renew(ctx, "new"); err == nil {
			t.Error("a holder registered while the ledger was locked")
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := l.Renew(t.Context(), "new"); err != nil {
			t.Errorf("Renew after the lock: %v", err)
		}
	})
}

// Replace changes the links and the ledger in one transaction.
func TestReplaceIsOneTransaction(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "gone", ledger.StateReserved, 10)
		if _, err := l.DB.ExecContext(t.Context(), `DELETE FROM kgs_holders`); err != nil {
			t.Fatal(err)
		}
		errLinks := errors.New("the links fail")
		if err := l.Replace(t.Context(), func(context.Context, *sql.Tx) error { return errLinks }); !errors.Is(err, errLinks) {
			t.Errorf("Replace: %v, want the error of the links", err)
		}
		if _, err := l.Identify(t.Context(), ledger.Config{}); err != nil {
			t.Errorf("the ledger after a failed Replace: %v", err)
		}
		called := 0
		if err := l.Replace(t.Context(), func(context.Context, *sql.Tx) error {
			called++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Identify(t.Context(), ledger.Config{}); !errors.Is(err, ledger.ErrNotInitialized) {
			t.Errorf("Identify after Replace: %v, want ErrNotInitialized", err)
		}
		if called != 1 {
			t.Errorf("Replace called links %d times, want once", called)
		}
	})
}
