package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
)

// A database with an encoding such as LATIN1 cannot store every Unicode text.
func TestMigrationRefusesDatabaseThatCannotStoreUnicode(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for encoding, refused := range map[string]bool{"LATIN1": true, "EUC_JP": true, "SQL_ASCII": false, "UTF8": false} {
		url := createDatabase(t, server.URL, encoding)
		err := MigrateDatabase(t.Context(), settings(t, url).Common, false, slog.New(slog.DiscardHandler), func(*Core) error { return nil })
		if _, invalid := errors.AsType[*config.Error](err); invalid != refused || err != nil && !refused {
			t.Errorf("migration of a database with the encoding %s: %v, want an error: %t", encoding, err, refused)
		}
	}
}

// createDatabase creates a database with an encoding on the server of a URL, and returns its URL.
func createDatabase(t *testing.T, serverURL, encoding string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), serverURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // the test does not need the connection any more
	name := strings.ToLower(encoding)
	if _, err := conn.Exec(t.Context(), `CREATE DATABASE `+name+` TEMPLATE template0 LOCALE 'C' ENCODING '`+encoding+`'`); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(serverURL, "/postgres?", "/"+name+"?", 1)
}

func TestMigrationRefusesSearchPathWithoutSchema(t *testing.T) {
	t.Parallel()
	url := testenv.StartPostgres(t).URL + "&search_path=nosuch"
	err := MigrateDatabase(t.Context(), settings(t, url).Common, false, slog.New(slog.DiscardHandler), func(*Core) error { return nil })
	if invalid, ok := errors.AsType[*config.Error](err); !ok || !strings.Contains(invalid.Error(), "search path") {
		t.Errorf("migration with a search path that has no schema: %v, want an error about the search path", err)
	}
}

// A role may have another client encoding as its default, so each connection must set the encoding itself.
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
