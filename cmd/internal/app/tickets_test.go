package app

import (
	"context"
	"log/slog"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/keysource"
	"keypool/kgs/ledger"
)

// Tickets in the server's own database use its existing connections. Tickets in another database
// have their own connections.
func TestTicketsShareConnectionsWithLedgerInSameDatabase(t *testing.T) {
	t.Parallel()
	ch := openTestChain(t, testenv.PostgresURL(t))
	for _, tt := range []struct {
		url    config.Database
		shares bool
	}{{ch.settings.Tickets[0], true}, {config.Database{Postgres: ch.Database.Postgres.Copy()}, false}} {
		before := ch.ledgerDB.Stat().AcquireCount()
		db, err := ch.ticketDatabase(t.Context(), tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Take(t.Context(), keysource.Odd, 1); err != nil {
			t.Error(err)
		}
		if shares := ch.ledgerDB.Stat().AcquireCount() > before; shares != tt.shares {
			t.Errorf("tickets use the connections of the ledger = %t, want %t", shares, tt.shares)
		}
	}
}

// A ticket database stores only numbers, so it needs no Unicode.
func TestTicketDatabaseMayHaveAnyEncoding(t *testing.T) {
	t.Parallel()
	url := createDatabase(t, testenv.StartPostgres(t).URL, "LATIN1")
	db, err := openTestChain(t, testenv.PostgresURL(t)).ticketDatabase(t.Context(), settings(t, url).Database)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Take(t.Context(), keysource.Odd, 1); err != nil {
		t.Error(err)
	}
}

// After many attempts of a creation, the fallback makes longer codes. With the key source hash, a creation turns to the
// fallback after all attempts with hashes. These attempts do not count, so the first codes of the fallback have CODE_LENGTH
// characters.
func TestFallbackOfHashBeginsWithShortCodes(t *testing.T) {
	t.Parallel()
	ch := openTestChain(t, testenv.PostgresURL(t))
	if err := ch.OpenLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	ch.counters = ledger.NewWatch(ch.ledger.Counters, ch.CodeLength, ch.Log)
	ch.settings.Fallback = "random"
	ch.openKeys(keysource.Hash{Algorithm: "sha256"})
	key, err := ch.keys.Next(t.Context(), "https://go.dev", keysource.HashAttempts)
	if err != nil || key.Source != kgs.SourceRandom || len(key.Code) != ch.CodeLength {
		t.Errorf("Next = %+v, %v, want a random code of %d characters", key, err, ch.CodeLength)
	}
}

// openTestChain returns a chain with an open database, but without a key source.
func openTestChain(t *testing.T, url string) *Chain {
	t.Helper()
	s := settings(t, url)
	life := &program.Lifecycle{}
	c, err := newCore(s.Common, life, slog.New(slog.DiscardHandler)).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return &Chain{Core: c, settings: s.Serve}
}
