package citusstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener/storetest"
)

// Close closes the connections to all nodes. After Close, the store opens no connections to
// a new node.
func TestClosedStoreHasNoConnections(t *testing.T) {
	t.Parallel()
	var pools []*pgxpool.Pool
	s := &Store{
		order: storetest.Plain(), log: slog.New(slog.DiscardHandler), nodes: make(map[address]*node),
		open: func(ctx context.Context, _ string, _ uint16) (*pgxpool.Pool, error) {
			pool, err := pgxpool.New(ctx, "postgres://127.0.0.1:1/")
			pools = append(pools, pool)
			return pool, err
		},
	}
	for port := range uint16(2) {
		for range 2 { // the second time, the node is known
			if _, err := s.nodeAt(t.Context(), address{host: "node", port: port, own: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Close()
	if len(pools) != 2 {
		t.Errorf("%d pools were opened for two nodes", len(pools))
	}
	for _, pool := range pools {
		if err := pool.Ping(t.Context()); err == nil || err.Error() != "closed pool" {
			t.Errorf("Ping of a pool after Close: %v, want the error of a closed pool", err)
		}
	}
	if _, err := s.nodeAt(t.Context(), address{host: "late", own: true}); !errors.Is(err, errClosed) || len(pools) != 2 {
		t.Errorf("nodeAt after Close: %v, want errClosed", err)
	}
}
