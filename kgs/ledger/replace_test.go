package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// The caller of Lock changes links, so no process may use the ledger at this time. Therefore Lock fails if a process has
// registered as a holder since CheckUnused.
func TestLockOfUnusedLedgerFailsIfHolderRegistered(t *testing.T) {
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
func TestLockOfUnusedLedgerPreventsHolderRegistration(t *testing.T) {
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

func TestReplacementOfLedgerChangesLinksInSameTransaction(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "gone", ledger.StateReserved, 10)
		if _, err := l.DB.ExecContext(t.Context(), `DELETE FROM kgs_holders`); err != nil {
			t.Fatal(err)
		}
		replacement := ledger.Config{Secret: bytes.Repeat([]byte{1}, 16), Permute: true}
		errLinks := errors.New("the links fail")
		if err := l.Replace(t.Context(), replacement, false, func(context.Context, *sql.Tx) error { return errLinks }); !errors.Is(err, errLinks) {
			t.Errorf("Replace: %v, want the error of the links", err)
		}
		if _, err := l.Identify(t.Context(), ledger.Config{}); err != nil {
			t.Errorf("the ledger after a failed Replace: %v", err)
		}
		called := 0
		if err := l.Replace(t.Context(), replacement, false, func(context.Context, *sql.Tx) error {
			called++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Identify(t.Context(), replacement); err != nil {
			t.Errorf("Identify with the secret of the new ledger: %v", err)
		}
		if called != 1 {
			t.Errorf("Replace called updateLinks %d times, want once", called)
		}
	})
}

// A ledger with secret A was replaced with a ledger with secret B. Then the database was restored from a backup that was
// made before the replacement. If the operator replaces the ledger with secret B again, the new ledger has the permutation
// of the lost ledger. If Restored recorded the restore, the new ledger must skip the numbers of the lost ledger.
func TestLedgerReplacedAfterRestoreSkipsNumbersOfLostLedger(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		for name, record := range map[string]func() error{
			"without a record of the restore": func() error { return nil },
			"after Restored":                  func() error { return l.Restored(t.Context()) },
		} {
			l.MustReserve(t, "gone", ledger.StateReserved, 10)
			l.Exec(t, `DELETE FROM kgs_holders`)
			if err := record(); err != nil {
				t.Fatal(err)
			}
			if err := l.Replace(t.Context(), ledger.Config{}, true, func(context.Context, *sql.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
				t.Fatal(err)
			}
			first := l.MustReserve(t, "new", ledger.StateReserved, 10).Lo
			if skipped := first > 0; skipped != (name == "after Restored") {
				t.Errorf("%s: the first number of the new ledger is %d", name, first)
			}
		}
	})
}

// A backup of a PostgreSQL database can be made after Replace and before the first change of the new ledger. If the backup is
// restored into another cluster, the new ledger detects the restore.
func TestNewLedgerDetectsRestoreOfBackupMadeBeforeFirstChange(t *testing.T) {
	t.Parallel()
	l := kgstest.NewPostgresLedger(t)
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Replace(t.Context(), ledger.Config{}, true, func(context.Context, *sql.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.Exec(t, `UPDATE kgs_ledger SET history = 'of another server' WHERE history <> ''`) // as in a restored database
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if first := l.MustReserve(t, "new", ledger.StateReserved, 10).Lo; first == 0 {
		t.Error("the new ledger reserves the first numbers again, want a skip-ahead")
	}
}

// The keys of a client are in no table of links, so no constraint would stop a new ledger from leasing them again.
func TestReplacementOfLedgerFailsIfClientsHaveLeasedKeys(t *testing.T) {
	for name, statement := range map[string]string{
		"an open lease": `INSERT INTO kgs_leases (id, client, request_id, state, expires_at) VALUES (1, 'a', 'r', 'open', 0)`,
		"kept keys":     `UPDATE kgs_ranges SET state = 'abandoned', holder = '', reason = 'client'`,
	} {
		t.Run(name, func(t *testing.T) {
			kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
				l.MustReserve(t, "gone", ledger.StateReserved, 10)
				for _, statement := range []string{`DELETE FROM kgs_holders`, statement} {
					if _, err := l.DB.ExecContext(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
				links := func(context.Context, *sql.Tx) error { return nil }
				if err := l.Replace(t.Context(), ledger.Config{Secret: bytes.Repeat([]byte{1}, 16), Permute: true}, false, links); !errors.Is(err, ledger.ErrLeased) {
					t.Errorf("Replace: %v, want ErrLeased", err)
				}
				if _, err := l.Identify(t.Context(), ledger.Config{}); err != nil {
					t.Errorf("the ledger after a refused Replace: %v", err)
				}
				if err := l.Replace(t.Context(), ledger.Config{}, true, links); err != nil {
					t.Errorf("Replace with forgetLeases: %v", err)
				}
			})
		})
	}
}

// A process that was suspended during Replace has a high-water mark and a code space of the old ledger. Without a check of the
// name, the new ledger would skip ahead to this mark.
func TestSuspendedProcessDoesNotChangeNewLedger(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.MustReserve(t, "suspended", ledger.StateReserved, 10)
		other := l.Reopen()
		l.Exec(t, `DELETE FROM kgs_holders`)
		if err := other.Replace(t.Context(), ledger.Config{Secret: bytes.Repeat([]byte{1}, 16), Permute: true}, false, func(context.Context, *sql.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Open(t.Context(), ledger.Config{Secret: bytes.Repeat([]byte{1}, 16), Permute: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), "suspended", ledger.StateReserved, 3, 10); !errors.Is(err, ledger.ErrReplaced) {
			t.Fatalf("Reserve of the suspended process: %v, want ErrReplaced", err)
		}
		j := &ledger.Janitor{Ledger: l.Ledger, Holder: "suspended", Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry())}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only a janitor that continues reaches the limit
		defer cancel()
		if err := j.Run(ctx); !errors.Is(err, ledger.ErrReplaced) {
			t.Errorf("Run of the janitor: %v, want ErrReplaced", err)
		}
		if r := other.MustReserve(t, "new", ledger.StateReserved, 10); r.Lo != 0 {
			t.Errorf("the first range of the new ledger is %+v, want a range that begins at 0", r)
		}
	})
}
