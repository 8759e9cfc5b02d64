package token

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/quota"
	"keypool/shortener/storetest"
)

// onEngines runs test on an empty database of each engine.
func onEngines(t *testing.T, test func(*testing.T, Store)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := storetest.SQLite(t)
		test(t, SQLite(db.Read, db.Write))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := stdlib.OpenDBFromPool(storetest.Postgres(t))
		t.Cleanup(func() { db.Close() })
		test(t, Postgres(db, db))
	})
}

// ordinary returns an argument for Create, with usual scopes and a usual rate.
func ordinary(name string) Token {
	return Token{Name: name, Scopes: ScopeCreate | ScopeRead, Rate: 100, CreatedAt: storetest.Moment()}
}

// create stores a token and returns it with its bearer.
func create(t *testing.T, s Store, wanted Token) (Token, string) {
	t.Helper()
	created, bearer, err := s.Create(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	return created, bearer
}

func list(t *testing.T, s Store) []Token {
	t.Helper()
	tokens, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestStoreListsCreatedAndRevokedTokens(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		if got := list(t, s); len(got) != 0 {
			t.Errorf("an empty database has the tokens %v", got)
		}
		limited := ordinary("limited")
		limited.ExpiresAt, limited.Rate, limited.Scopes = storetest.Moment().Add(time.Hour), quota.Off, ScopeAdmin
		var want []Token
		for _, token := range []Token{ordinary("Müller"), limited} {
			created, bearer := create(t, s, token)
			if id, _, ok := parseBearer(bearer); !ok || id != created.ID {
				t.Errorf("the bearer %q does not have the id of the token %d", bearer, created.ID)
			}
			want = append(want, created)
		}
		if want[0].ID == want[1].ID {
			t.Errorf("both tokens have the id %d", want[0].ID)
		}
		if diff := cmp.Diff(want, list(t, s)); diff != "" {
			t.Errorf("tokens (-created +listed):\n%s", diff)
		}
		at := storetest.Moment().Add(time.Minute)
		want[0].RevokedAt = at.UTC()
		for _, when := range []time.Time{at, at.Add(time.Hour)} { // the second call changes nothing
			if err := s.Revoke(t.Context(), want[0].ID, when); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, list(t, s)); diff != "" {
			t.Errorf("tokens after a revocation (-want +listed):\n%s", diff)
		}
		if err := s.Revoke(t.Context(), 4711, at); !errors.Is(err, ErrNoToken) || !strings.Contains(err.Error(), "00004711") {
			t.Errorf("Revoke of an unknown id: %v, want ErrNoToken with the id", err)
		}
	})
}

// digestIn returns the digest of the first token in the database.
func digestIn(t *testing.T, s Store) [sha256.Size]byte {
	t.Helper()
	rows, err := s.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows[0].digest
}

// A renewal also changes an expired token. It keeps the name, the scopes, the rate, the creation and the last use.
func TestRenewalChangesOnlySecretAndExpiry(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		limited := ordinary("limited")
		limited.Rate, limited.ExpiresAt = 7, storetest.Moment().Add(-time.Hour)
		want, bearer := create(t, s, limited)
		other, _ := create(t, s, ordinary("other"))
		want.LastUsedAt = storetest.Moment().UTC().Truncate(time.Hour)
		if err := s.recordUse(t.Context(), want.ID, want.LastUsedAt); err != nil {
			t.Fatal(err)
		}
		for _, expires := range []time.Time{storetest.Moment().Add(time.Hour), {}} {
			former := bearer
			var err error
			if bearer, err = s.Renew(t.Context(), want.ID, expires); err != nil {
				t.Fatal(err)
			}
			want.ExpiresAt = expires.UTC()
			if diff := cmp.Diff([]Token{want, other}, list(t, s)); diff != "" {
				t.Errorf("tokens after a renewal (-want +listed):\n%s", diff)
			}
			id, secret, ok := parseBearer(bearer)
			if !ok || id != want.ID || bearer == former {
				t.Errorf("the bearer of the token %d was %q and is now %q, want another secret", want.ID, former, bearer)
			}
			if digestIn(t, s) != digestOf(secret) {
				t.Error("the database does not contain the digest of the new secret")
			}
		}
	})
}

// A revocation is final, because another token may have the name of the revoked token.
func TestRenewRefusesRevokedAndUnknownTokens(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		revoked, _ := create(t, s, ordinary("ci"))
		if err := s.Revoke(t.Context(), revoked.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		create(t, s, ordinary("ci"))
		tokens, digest := list(t, s), digestIn(t, s)
		for id, want := range map[int64]error{revoked.ID: ErrRevoked, 4711: ErrNoToken} {
			bearer, err := s.Renew(t.Context(), id, storetest.Moment())
			if !errors.Is(err, want) || !strings.Contains(err.Error(), FormatID(id)) || bearer != "" {
				t.Errorf("Renew(%d): bearer %q, error %v; want no bearer, and %v with the id", id, bearer, err, want)
			}
		}
		if diff := cmp.Diff(tokens, list(t, s)); diff != "" || digestIn(t, s) != digest {
			t.Errorf("a renewal that failed changed the tokens (-before +after):\n%s", diff)
		}
	})
}

// A revocation is final, even if a renewal begins before the revocation is committed.
func TestRenewalNeverChangesTokenDuringRevocation(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.Postgres(t))
	t.Cleanup(func() { db.Close() })
	s := Postgres(db, db)
	created, _ := create(t, s, ordinary("ci"))
	digest := digestIn(t, s)
	renewed := make(chan error, 1)
	err := s.change(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `UPDATE tokens SET revoked_at = now()`); err != nil {
			return err
		}
		go func() {
			_, err := s.Renew(t.Context(), created.ID, time.Time{})
			renewed <- err
		}()
		return awaitBlocked(t, tx, db)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := receive(t, renewed); !errors.Is(err, ErrRevoked) || digestIn(t, s) != digest {
		t.Errorf("Renew: %v, want ErrRevoked and the same digest", err)
	}
}

// awaitBlocked waits until another transaction waits for a lock of tx.
func awaitBlocked(t *testing.T, tx *sql.Tx, db *sql.DB) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var pid int
	err := tx.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	for blocked := false; err == nil && !blocked; {
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid)))`, pid).Scan(&blocked)
	}
	return err
}

// The database contains the digest of the secret, and not the secret.
func TestStoreKeepsDigestInsteadOfTokenSecret(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		_, bearer := create(t, s, ordinary("ci"))
		_, secret, _ := parseBearer(bearer)
		if digestIn(t, s) != sha256.Sum256([]byte(secret)) {
			t.Error("the digest is not the SHA-256 digest of the secret")
		}
		var columns []string
		for _, column := range []string{"name", "scopes", "rate", "created_at", "id"} {
			var text string
			if err := s.read.QueryRowContext(t.Context(), `SELECT CAST(`+column+` AS text) FROM tokens`).Scan(&text); err != nil {
				t.Fatal(err)
			}
			columns = append(columns, text)
		}
		if strings.Contains(strings.Join(columns, " "), secret) {
			t.Errorf("the row %v contains the secret", columns)
		}
	})
}

// Of several concurrent creations with the same name, exactly one succeeds, because the index of
// the database decides.
func TestTwoValidTokensCannotHaveSameName(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		var wg sync.WaitGroup
		var created atomic.Int64
		for range 8 {
			wg.Go(func() {
				switch _, bearer, err := s.Create(t.Context(), ordinary("ci")); {
				case err == nil:
					created.Add(1)
				case !errors.Is(err, ErrNameTaken) || bearer != "":
					t.Errorf("Create with a name that is taken: bearer %q, error %v; want ErrNameTaken", bearer, err)
				}
			})
		}
		wg.Wait()
		if n := created.Load(); n != 1 {
			t.Fatalf("%d tokens have the same name, want 1", n)
		}
		if err := s.Revoke(t.Context(), list(t, s)[0].ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		create(t, s, ordinary("ci")) // the name of a revoked token can be used again
		if _, _, err := s.Create(t.Context(), ordinary("ci")); !errors.Is(err, ErrNameTaken) {
			t.Errorf("Create with a name that is taken again: %v, want ErrNameTaken", err)
		}
	})
}

// The isolation level does not depend on the default of the database. At the level repeatable read, concurrent changes fail.
func TestChangeOfTokensUsesReadCommittedIsolation(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.RepeatableRead(t))
	t.Cleanup(func() { db.Close() })
	var level string
	err := Postgres(db, db).change(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), `SHOW transaction_isolation`).Scan(&level)
	})
	if level != "read committed" || err != nil {
		t.Errorf("the isolation level is %q, error %v; want read committed", level, err)
	}
}

// PostgreSQL ends a change whose process is suspended. Another change waits until then for the row of the token.
func TestServerEndsTokenTransactionOfSuspendedProcess(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.Postgres(t))
	t.Cleanup(func() { db.Close() })
	s := Postgres(db, db)
	created, _ := create(t, s, ordinary("ci"))
	err := s.change(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `UPDATE tokens SET rate = 1`); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := s.Revoke(ctx, created.ID, storetest.Moment()); err != nil {
			t.Errorf("the transaction still holds the row of the token: %v", err)
		}
		return nil
	})
	if err == nil {
		t.Error("the commit succeeded after the end of the transaction")
	}
	if got := list(t, s)[0]; got.Rate != created.Rate || got.RevokedAt.IsZero() {
		t.Errorf("the token is %+v, want the rate of its creation and a revocation", got)
	}
}

func TestCreateRefusesInvalidName(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		if _, _, err := s.Create(t.Context(), ordinary("a\nb")); !errors.Is(err, errName) {
			t.Errorf("Create with a line break in the name: %v", err)
		}
	})
}

// The database refuses a row that a server could not use, even if a person writes the
// row.
func TestDatabaseRefusesInvalidTokenRows(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		create(t, s, ordinary("ci"))
		for _, change := range []string{"scopes = 0", "scopes = 16", "rate = -1", "name = ''", "digest = substr(digest, 1, 31)"} {
			if _, err := s.write.ExecContext(t.Context(), `UPDATE tokens SET `+change); err == nil {
				t.Errorf("the database accepts %s", change)
			}
		}
	})
}

func versionOf(t *testing.T, s Store) int64 {
	t.Helper()
	version, err := s.version(t.Context())
	if err != nil || version < 0 {
		t.Fatalf("version %d, error %v; want a version that is not negative", version, err)
	}
	return version
}

// A call of Create, Renew or Revoke that fails does not change the version.
func TestTokenVersionChangesOnlyIfChangeOfTokenSucceeds(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		empty := versionOf(t, s)
		created, _ := create(t, s, ordinary("ci"))
		after := versionOf(t, s)
		if after == empty {
			t.Errorf("the version is %d before and after a creation", after)
		}
		if _, _, err := s.Create(t.Context(), ordinary("ci")); err == nil {
			t.Error("Create accepts a name that is taken")
		}
		if got := versionOf(t, s); got != after {
			t.Errorf("a creation that failed changed the version from %d to %d", after, got)
		}
		if _, err := s.Renew(t.Context(), created.ID, time.Time{}); err != nil {
			t.Fatal(err)
		}
		renewed := versionOf(t, s)
		if renewed == after || renewed == empty {
			t.Errorf("the version is %d after a renewal, %d before it and %d at the start", renewed, after, empty)
		}
		if err := s.Revoke(t.Context(), created.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		revoked := versionOf(t, s)
		if revoked == renewed || revoked == after || revoked == empty {
			t.Errorf("the version is %d after a revocation, and was %d, %d and %d before", revoked, renewed, after, empty)
		}
		if _, err := s.Renew(t.Context(), created.ID, time.Time{}); err == nil {
			t.Error("Renew accepts a revoked token")
		}
		if got := versionOf(t, s); got != revoked {
			t.Errorf("a renewal that failed changed the version from %d to %d", revoked, got)
		}
	})
}

// failOver returns the tokens to an older state, like a failover to a standby that lacks the creation of the token with this
// id. The parameter version is the version of the tokens before this creation.
func failOver(t *testing.T, s Store, id, version int64) {
	t.Helper()
	for statement, value := range map[string]int64{
		`DELETE FROM tokens WHERE id = $1`:                   id,
		`UPDATE token_changes SET version = $1 WHERE id = 1`: version,
	} {
		if _, err := s.write.ExecContext(t.Context(), statement, value); err != nil {
			t.Fatal(err)
		}
	}
}

// After a failover that loses a change, another change must not set the version of the lost change.
func TestTokenVersionAfterLostChangeDiffersFromLostVersion(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		start := versionOf(t, s)
		lost, _ := create(t, s, ordinary("lost"))
		known := versionOf(t, s)
		failOver(t, s, lost.ID, start)
		create(t, s, ordinary("other"))
		if got := versionOf(t, s); got == known {
			t.Errorf("both changes set the version %d", got)
		}
	})
}

// A change sets another version even if the random number equals the present version.
func TestTokenVersionChangesEvenIfRandomNumberIsEqual(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		for _, drawn := range []int64{0, 0, math.MaxInt64 - 1, math.MaxInt64 - 1} {
			before := versionOf(t, s)
			tx, err := s.write.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(setVersion(t.Context(), tx, drawn), tx.Commit()); err != nil {
				t.Fatal(err)
			}
			if got := versionOf(t, s); got == before {
				t.Errorf("the random number %d does not change the version %d", drawn, before)
			}
		}
	})
}

// A server whose clock is slow cannot set the last use to an earlier hour.
func TestLastUseOfTokenNeverMovesToEarlierHour(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		created, _ := create(t, s, ordinary("ci"))
		hour := storetest.Moment().UTC().Truncate(time.Hour)
		for _, h := range []time.Time{hour, hour.Add(-time.Hour), hour} {
			if err := s.recordUse(t.Context(), created.ID, h); err != nil {
				t.Fatal(err)
			}
		}
		if got := list(t, s)[0].LastUsedAt; !got.Equal(hour) {
			t.Errorf("last used at %v, want %v", got, hour)
		}
	})
}

func TestScanOfTimeColumnRefusesText(t *testing.T) {
	t.Parallel()
	var m sql.Scanner = new(moment)
	if err := m.Scan("2026"); err == nil {
		t.Error("Scan accepts a text as a time")
	}
}
