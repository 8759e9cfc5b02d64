package app

import (
	"context"
	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/kgs/keysource"
	"log/slog"
	"testing"
)

// Tickets from the server's own database use its existing connections; another database gets
// connections of its own.
func TestTicketsOfOwnDatabaseShareConnections(t *testing.T) {
	t.Parallel()
	s := settings(t, testenv.PostgresURL(t))
	life := &lifecycle{}
	c, err := openCore(t.Context(), s.Common, life, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	ch := &Chain{Core: c, settings: s.Serve}
	for _, tt := range []struct {
		url    config.Database
		opened int
	}{{s.Tickets[0], 0}, {config.Database{Postgres: s.Database.Postgres.Copy()}, 1}} {
		before := len(life.steps)
		db, err := ch.ticketDatabase(t.Context(), tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Take(t.Context(), keysource.Odd, 1); err != nil {
			t.Error(err)
		}
		if got := len(life.steps) - before; got != tt.opened {
			t.Errorf("opened %d pools of connections, want %d", got, tt.opened)
		}
	}
}
