package keyserver_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/keyserver"
	"keypool/kgs/kgstest"
)

func TestRemoteSupplyFollowsSupplyContract(t *testing.T) {
	kgstest.OnEngines(t, func(t *testing.T, newLedger func(*testing.T) kgstest.LedgerUnderTest) {
		kgstest.TestSupply(t, func(t *testing.T, keys int) kgstest.SupplyUnderTest {
			l := newLedger(t)
			registry := prometheus.NewRegistry()
			srv := httptest.NewServer(keyserver.New(keyserver.Config{
				Ledger: l.Ledger, Space: kgstest.OpenWith(t, l, keys), Length: 6, Rate: 1_000_000,
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
			return kgstest.SupplyUnderTest{Supply: s}
		})
	})
}
