package kgs_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/keyserver"
)

func TestRemoteSupply(t *testing.T) {
	kgs.OnEngines(t, func(t *testing.T, newBooks func(*testing.T) kgs.LedgerOfTest) {
		kgs.CheckSupply(t, func(t *testing.T, keys int) kgs.SuppliedTo {
			l := newBooks(t)
			registry := prometheus.NewRegistry()
			srv := httptest.NewServer(keyserver.New(keyserver.Config{
				Ledger: l.Ledger, Space: kgs.OpenWith(t, l, keys), Length: 6, Rate: 1_000_000,
				Clients: []keyserver.Client{{Name: "test", Token: "token-of-the-test"}},
				Ready:   func() bool { return true }, Logger: slog.New(slog.DiscardHandler),
				Metrics: kgs.NewMetrics(registry), Registerer: registry,
			}))
			t.Cleanup(srv.Close)
			s, err := keyserver.NewRemoteSupply(strings.Replace(srv.URL, "//", "//test:token-of-the-test@", 1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			return kgs.SuppliedTo{Supply: s}
		})
	})
}
