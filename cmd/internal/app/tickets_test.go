package app

import (
	"context"
	"log/slog"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
	"keypool/kgs/keysource"
)

// Tickets in the server's own database use its existing connections. Tickets in another database
// have their own connections.
func TestTicketsInDatabaseOfServerUseConnectionsOfLedger(t *testing.T) {
	t.Parallel()
	s := settings(t, testenv.PostgresURL(t))
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
	ch := &Chain{Core: c, settings: s.Serve}
	for _, tt := range []struct {
		url    config.Database
		shares bool
	}{{s.Tickets[0], true}, {config.Database{Postgres: s.Database.Postgres.Copy()}, false}} {
		before := c.ledgerDB.Stat().AcquireCount()
		db, err := ch.ticketDatabase(t.Context(), tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Take(t.Context(), keysource.Odd, 1); err != nil {
			t.Error(err)
		}
		if shares := c.ledgerDB.Stat().AcquireCount() > before; shares != tt.shares {
			t.Errorf("tickets use the connections of the ledger = %t, want %t", shares, tt.shares)
		}
	}
}
