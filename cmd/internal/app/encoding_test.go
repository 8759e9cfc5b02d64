package app

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
)

// In a database with another encoding, PostgreSQL would store the bytes of a UTF-8 text as other characters, and a backup would
// contain these characters.
func TestMigrationRefusesDatabaseThatCannotStoreUnicode(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for encoding, refused := range map[string]bool{"LATIN1": true, "EUC_JP": true, "SQL_ASCII": false, "UTF8": false} {
		name := strings.ToLower(encoding)
		if _, err := conn.Exec(t.Context(), `CREATE DATABASE `+name+` TEMPLATE template0 LOCALE 'C' ENCODING '`+encoding+`'`); err != nil {
			t.Fatal(err)
		}
		url := strings.Replace(server.URL, "/postgres?", "/"+name+"?", 1)
		err := MigrateDatabase(t.Context(), settings(t, url).Common, false, slog.New(slog.NewTextHandler(io.Discard, nil)), func(*Core) error { return nil })
		if _, invalid := errors.AsType[*config.Error](err); invalid != refused || err != nil && !refused {
			t.Errorf("migration of a database with the encoding %s: %v, want an error: %t", encoding, err, refused)
		}
	}
}

// The default of a role may be another encoding.
func TestConnectionsSendAndReceiveUTF8(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	conn, err := openSession(t, server.URL, acceptConnection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `ALTER ROLE current_user SET client_encoding = 'LATIN1'`); err != nil {
		t.Fatal(err)
	}
	conn, err = openSession(t, server.URL, acceptConnection)
	if err != nil {
		t.Fatal(err)
	}
	var encoding string
	if err := conn.QueryRow(t.Context(), `SHOW client_encoding`).Scan(&encoding); err != nil || encoding != "UTF8" {
		t.Errorf("the encoding of a connection is %s (error %v), want UTF8", encoding, err)
	}
}
