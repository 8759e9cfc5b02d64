package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/web/admin"
)

// TestServerGoesOnWithoutItsKGS kills the key service that a server takes its keys from.
func TestServerGoesOnWithoutItsKGS(t *testing.T) {
	t.Parallel()
	k := startKGSProcess(t, testenv.PostgresURL(t))
	database := sqliteURL(t)
	s := settings(t, database, "")
	s.KeySource, s.KGSURL = "kgs", k.url()
	r := start(t, s)
	shorten := func(n int) {
		t.Helper()
		for i := range n {
			url := fmt.Sprintf("https://go.dev/%d", i)
			r.wantStatus(r.shorten(url), http.StatusFound, url)
		}
	}
	shorten(250)
	r.await("local batches", func(s admin.Status) bool { return *s.LocalKeys >= 100 })
	k.kill()
	shorten(10)
	if s := r.status(); *s.ServingFrom != "batch" {
		t.Errorf("without its key service the server serves from the %s, with %d local keys", *s.ServingFrom, *s.LocalKeys)
	}
	for *r.status().LocalKeys > 0 {
		shorten(50)
	}
	r.await("an open breaker", func(s admin.Status) bool { return *s.Breaker == "open" && *s.ServingFrom == "fallback" })
	shorten(10)
	k.start()
	r.await("keys again", func(s admin.Status) bool { return *s.Breaker == "closed" && *s.ServingFrom == "batch" })
	shorten(10)
	r.stop()
	links, keys := audit(t, database, ""), audit(t, k.database, "")
	if links.status != 0 || links.Links["random"] < 10 || keys.status != 0 || keys.InBatches != 0 || len(keys.Links) > 0 ||
		keys.Abandoned[kgs.ReasonClient] != links.Links["kgs"] {
		t.Errorf("audit of the links: %+v; of the keys: %+v; want just those with the client that are linked", links, keys)
	}
}

func TestAuditOfALinkStoreThatIsTheKGSsToo(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"postgres": testenv.PostgresURL(t), "sqlite": sqliteURL(t)} {
		t.Run(name, func(t *testing.T) {
			_, url := startKeyService(t, database)
			s := settings(t, database, "")
			s.KeySource, s.KGSURL = "kgs", url
			r := start(t, s)
			r.await("local batches", func(s admin.Status) bool { return *s.LocalKeys >= 100 })
			for range 250 {
				r.shorten("https://go.dev/")
			}
			if a := audit(t, database, ""); a.status != 0 {
				t.Errorf("audit beside the programs: %+v", a)
			}
			r.stop()
			a := audit(t, database, "")
			if a.status != 0 || a.Linked != a.Links["kgs"] || a.Linked < 100 || a.InBatches != 0 || len(a.Abandoned) > 0 {
				t.Errorf("audit: %+v; want every key linked or back", a)
			}
		})
	}
}

// TestKilledKGSLosesNoKeys kills the service again and again under clients that repeat
// their requests until they are answered.
func TestKilledKGSLosesNoKeys(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"postgres": testenv.PostgresURL(t), "sqlite": sqliteURL(t)} {
		t.Run(name, func(t *testing.T) {
			const clients, requests, keys, kills = 8, 40, 50, 5
			k := startKGSProcess(t, database)
			answered := make(chan struct{}, clients*requests)
			leases := make([][][]string, clients)
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					for i := range requests {
						leases[c] = append(leases[c], k.takeAtLast(fmt.Sprintf("%d-%d", c, i), keys))
						answered <- struct{}{}
					}
				})
			}
			for range kills {
				for range clients * requests / (kills + 1) {
					<-answered
				}
				k.kill()
				k.start()
			}
			wg.Wait()
			var all []string
			for c := range clients {
				for i, codes := range leases[c] {
					if again := k.takeAtLast(fmt.Sprintf("%d-%d", c, i), keys); !slices.Equal(codes, again) {
						t.Errorf("request %d-%d got %v, then %v", c, i, codes, again)
					}
					all = append(all, codes...)
				}
			}
			slices.Sort(all)
			a := audit(t, database, "")
			if n := len(slices.Compact(all)); n != clients*requests*keys || a.status != 0 || a.Reserved != int64(n) {
				t.Errorf("%d different keys, audit %+v", n, a)
			}
		})
	}
}

// takeAtLast repeats a request until it is answered.
func (k *kgsProcess) takeAtLast(request string, count int) []string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		answer, err := k.call("TakeKeys", map[string]any{"requestId": request, "count": count})
		if err == nil {
			return answer.Codes
		}
		if time.Now().After(deadline) {
			k.t.Errorf("request %s is never answered: %v", request, err)
			return nil
		}
	}
}

// A client that keeps its HTTP/2 connection does not hold up the stop.
func TestKGSStopsBesideAClient(t *testing.T) {
	t.Parallel()
	p, _ := startKeyService(t, sqliteURL(t))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+p.Addr().String()+"/keypool.kgs.v1.KeyService/Status", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+kgsToken)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("%s %s", resp.Proto, resp.Status)
	}
	began := time.Now()
	if err := p.Stop(); err != nil || time.Since(began) > publicGrace {
		t.Errorf("stopped after %s, error %v", time.Since(began), err)
	}
}

func TestSettingsOfTheKGS(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2"
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // should it take what it must not, it ends before it serves
	for _, tt := range []struct{ flag, name, takes string }{
		{"--kgs-tokens=", "REDIS_URL", "KGS_TOKENS"},
		{"--kgs-tokens=" + secret, "KGS_TOKENS", "client=token"},
		{"--kgs-tokens=a=" + secret + ",a=" + secret, "KGS_TOKENS", "all different"},
		{"--kgs-tokens=a=hunter2", "KGS_TOKENS", "at least 16"},
		{"--kgs-listen-addr=8082", "KGS_LISTEN_ADDR", "[host]:port"},
		{"--kgs-client-rate=0", "KGS_CLIENT_RATE", "whole number"},
	} {
		var out, errs bytes.Buffer
		status := KGS(ctx, "v-test", []string{tt.flag}, &out, &errs)
		said := errs.String()
		if status != 2 || !strings.Contains(said, tt.name) || !strings.Contains(said, tt.takes) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: exit status %d, %q; want one line that names %s and says %q", tt.flag, status, said, tt.name, tt.takes)
		}
	}
	s := settings(t, sqliteURL(t), "")
	s.KeySource, s.KGSURL = "kgs", "http://"+secret+"@host"
	var setting *SettingError
	_, err := StartServer(t.Context(), s, slog.New(slog.DiscardHandler))
	if !errors.As(err, &setting) || setting.Name != "KGS_URL" || strings.Contains(err.Error(), secret) {
		t.Errorf("an address without a token: %v", err)
	}
}
