package token

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

var (
	// ErrNameTaken reports that a token with the name exists and is not revoked.
	ErrNameTaken = errors.New("another token that is not revoked has this name; renew or revoke that token, or choose another name")
	// ErrNoToken reports that no token has the id.
	ErrNoToken = errors.New("no token has this id")
)

// Store keeps the tokens in the database. Its methods may be called concurrently, and by several
// processes.
type Store struct {
	read, write *sql.DB
	moment      func(time.Time) any // converts a time to the value of a column
	begin       string              // statement that limits how long a suspended process can hold a transaction; "" if the engine has no such limit
}

// SQLite returns a store in a database that has separate connections for reading and for writing.
func SQLite(read, write *sql.DB) Store {
	return Store{read: read, write: write, moment: func(t time.Time) any { return t.UnixMicro() }}
}

// Postgres returns a store in a PostgreSQL database. The parameters read and write may be equal. If they differ, a
// write that waits for a lock cannot delay the polls of a [Registry], which read the version.
func Postgres(read, write *sql.DB) Store {
	return Store{
		read: read, write: write, moment: func(t time.Time) any { return t },
		begin: `SET LOCAL idle_in_transaction_session_timeout = '3s'`,
	}
}

// nullable converts a time to the value of a column. The zero time becomes NULL.
func (s Store) nullable(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return s.moment(t)
}

// Create stores a new token. It uses the Name, Scopes, Rate, CreatedAt and ExpiresAt of t. It returns the token
// and its bearer, which the caller must show now, because the store keeps no copy of the bearer. If the name is
// not free, Create fails with ErrNameTaken.
func (s Store) Create(ctx context.Context, t Token) (created Token, bearer string, err error) {
	if err := CheckName(t.Name); err != nil {
		return Token{}, "", err
	}
	t.CreatedAt, t.ExpiresAt = stamp(t.CreatedAt), stamp(t.ExpiresAt)
	secret := newSecret()
	digest := digestOf(secret)
	err = s.change(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO tokens (digest, name, scopes, rate, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING id`,
			digest[:], t.Name, int64(t.Scopes), int64(t.Rate), s.moment(t.CreatedAt), s.nullable(t.ExpiresAt)).Scan(&t.ID)
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNameTaken
		}
		return err
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("create the token %q: %w", t.Name, err)
	}
	return t, formatBearer(t.ID, secret), nil
}

// Revoke ends the validity of a token at the given time. If the token is already revoked, the time of its
// revocation does not change. If no token has the id, Revoke fails with ErrNoToken.
func (s Store) Revoke(ctx context.Context, id int64, at time.Time) error {
	err := s.change(ctx, func(tx *sql.Tx) error {
		return update(ctx, tx, `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2`, s.moment(stamp(at)), id)
	})
	if err != nil {
		return fmt.Errorf("revoke the token %s: %w", FormatID(id), err)
	}
	return nil
}

// Renew gives a token a new secret, and sets its expiry. If expires is zero, the token never expires. Everything else stays,
// including the links of the token, because the links refer to the id of the token. Renew returns the new bearer, which the caller
// must show now, as after Create. If the token is revoked, Renew fails with ErrRevoked. If no token has the id, Renew fails
// with ErrNoToken.
func (s Store) Renew(ctx context.Context, id int64, expires time.Time) (bearer string, err error) {
	secret := newSecret()
	digest := digestOf(secret)
	err = s.change(ctx, func(tx *sql.Tx) error {
		// The same statement checks the revocation and changes the row, so that a concurrent revocation stays final.
		err := update(ctx, tx, `UPDATE tokens SET digest = $1, expires_at = $2 WHERE id = $3 AND revoked_at IS NULL`,
			digest[:], s.nullable(stamp(expires)), id)
		if errors.Is(err, ErrNoToken) {
			return notRenewable(ctx, tx, id)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("renew the token %s: %w", FormatID(id), err)
	}
	return formatBearer(id, secret), nil
}

// notRenewable returns the reason why Renew changed no token: the token is revoked, or no token has the id.
func notRenewable(ctx context.Context, tx *sql.Tx, id int64) error {
	var revoked int64
	err := tx.QueryRowContext(ctx, `SELECT id FROM tokens WHERE id = $1 AND revoked_at IS NOT NULL`, id).Scan(&revoked)
	switch {
	case err == nil:
		return fmt.Errorf("%w, and a revocation is final; create another token", ErrRevoked)
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoToken
	}
	return err
}

// update executes a statement that changes one token. If the statement finds no token, update fails with ErrNoToken.
func update(ctx context.Context, tx *sql.Tx, statement string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = ErrNoToken
	}
	return err
}

// change calls the function do in a transaction, and replaces the version in the same transaction. This
// replacement is the last statement, because it locks a row that all changes share. If the process is suspended during
// the transaction, PostgreSQL ends the transaction after three seconds. Without this limit, all other changes would wait.
func (s Store) change(ctx context.Context, do func(*sql.Tx) error) error {
	// At a stricter isolation level, which may be the default of the database, concurrent changes of the shared row would
	// fail. SQLite ignores the level.
	tx, err := s.write.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if s.begin != "" {
		if _, err := tx.ExecContext(ctx, s.begin); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := setVersion(ctx, tx, randomVersion()); err != nil {
		return err
	}
	return tx.Commit()
}

// setVersion replaces the version by v, or by v + 1 if the version is v already.
func setVersion(ctx context.Context, tx *sql.Tx, v int64) error {
	// Without the casts, PostgreSQL could not infer the types in the query mode simple_protocol of pgx.
	_, err := tx.ExecContext(ctx, `UPDATE token_changes
		SET version = CASE version WHEN CAST($1 AS bigint) THEN CAST($2 AS bigint) ELSE CAST($1 AS bigint) END WHERE id = 1`, v, v+1)
	return err
}

// randomVersion returns a number from 0 to the maximum of an int64 minus 1, so that setVersion can add 1. A counter
// of the changes would not suffice as a version. If a failover lost the last change, the next change would get the version of
// the lost change. A server that has this version in memory would not read the tokens again.
func randomVersion() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.NativeEndian.Uint64(b[:]) % math.MaxInt64)
}

// version returns the version of the tokens.
func (s Store) version(ctx context.Context) (version int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT version FROM token_changes WHERE id = 1`).Scan(&version)
	return version, err
}

// recordUse stores that a token was used in the hour that begins at the given time. If a server has already stored
// this hour or a later one, recordUse changes nothing.
func (s Store) recordUse(ctx context.Context, id int64, hour time.Time) error {
	_, err := s.write.ExecContext(ctx, `UPDATE tokens SET last_used_at = $1 WHERE id = $2 AND (last_used_at IS NULL OR last_used_at < $1)`,
		s.moment(hour), id)
	return err
}

// row is a token and the digest of its secret.
type row struct {
	Token
	digest [sha256.Size]byte
}

// List returns all tokens in the order of their creation, including the tokens that are expired or
// revoked.
func (s Store) List(ctx context.Context) ([]Token, error) {
	rows, err := s.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tokens: %w", err)
	}
	tokens := make([]Token, len(rows))
	for i := range rows {
		tokens[i] = rows[i].Token
	}
	return tokens, nil
}

// all returns all rows in the order of their ids.
func (s Store) all(ctx context.Context) (all []row, err error) {
	rows, err := s.read.QueryContext(ctx,
		`SELECT id, digest, name, scopes, rate, created_at, expires_at, revoked_at, last_used_at FROM tokens ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r row
		var digest []byte
		err := rows.Scan(&r.ID, &digest, &r.Name, &r.Scopes, &r.Rate,
			(*moment)(&r.CreatedAt), (*moment)(&r.ExpiresAt), (*moment)(&r.RevokedAt), (*moment)(&r.LastUsedAt))
		if err != nil {
			return nil, err
		}
		copy(r.digest[:], digest)
		all = append(all, r)
	}
	return all, rows.Err()
}

// moment scans a column with a time. In SQLite, the column contains a number of microseconds. NULL becomes the
// zero time.
type moment time.Time

// Scan implements [sql.Scanner].
func (m *moment) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*m = moment{}
	case int64:
		*m = moment(time.UnixMicro(v).UTC())
	case time.Time:
		*m = moment(v.UTC())
	default:
		return fmt.Errorf("a column with a time has a value of type %T", value)
	}
	return nil
}

// stamp converts a time to UTC and truncates it to microseconds, which every engine can store.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
