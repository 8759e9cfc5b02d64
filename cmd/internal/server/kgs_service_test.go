package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs"
	"keypool/kgs/keyserver"
	"keypool/web/admin"
)

// TestServerCreatesLinksWhileKeyServiceIsDown kills the key service of a server.
func TestServerCreatesLinksWhileKeyServiceIsDown(t *testing.T) {
	t.Parallel()
	k := startKGSProcess(t, testenv.PostgresURL(t))
	database := sqliteURL(t)
	s := settings(t, database, "")
	s.KeySource, s.KGSURL = "kgs", config.KGSURL(k.url())
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
		t.Errorf("after the kill the server serves from %s with %d local keys; want the batch", *s.ServingFrom, *s.LocalKeys)
	}
	for *r.status().LocalKeys > 0 {
		shorten(50)
	}
	r.await("an open breaker", func(s admin.Status) bool { return *s.Breaker == "open" && *s.ServingFrom == "fallback" })
	shorten(10)
	k.start()
	r.await("keys from the key service again", func(s admin.Status) bool { return *s.Breaker == "closed" && *s.ServingFrom == "batch" })
	shorten(10)
	r.stop()
	links, keys := auditJSON(t, database, ""), auditJSON(t, k.database, "")
	if links.status != 0 || links.Links["random"] < 10 || keys.status != 0 || keys.InBatches != 0 || len(keys.Links) > 0 ||
		keys.Abandoned[kgs.ReasonClient] != links.Links["kgs"] {
		t.Errorf("audit of the links: %+v; of the keys: %+v; want the linked keys, and no others, abandoned with the reason client", links, keys)
	}
}

func TestAuditFindsNoFaultIfServerAndKGSShareDatabase(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"postgres": testenv.PostgresURL(t), "sqlite": sqliteURL(t)} {
		t.Run(name, func(t *testing.T) {
			_, url := startKeyService(t, database)
			s := settings(t, database, "")
			s.KeySource, s.KGSURL = "kgs", config.KGSURL(url)
			r := start(t, s)
			r.await("local batches", func(s admin.Status) bool { return *s.LocalKeys >= 100 })
			for range 250 {
				r.shorten("https://go.dev/")
			}
			if a := auditJSON(t, database, ""); a.status != 0 {
				t.Errorf("audit while the programs run: %+v", a)
			}
			r.stop()
			a := auditJSON(t, database, "")
			if a.status != 0 || a.Linked != a.Links["kgs"] || a.Linked < 100 || a.InBatches != 0 || len(a.Abandoned) > 0 {
				t.Errorf("audit: %+v; want every key linked or returned", a)
			}
		})
	}
}

// TestKilledKeyServiceLosesNoKeys kills the key service five times. Meanwhile, clients repeat each request
// until it is answered.
func TestKilledKeyServiceLosesNoKeys(t *testing.T) {
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
						leases[c] = append(leases[c], k.takeRepeatedly(fmt.Sprintf("%d-%d", c, i), keys))
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
					if again := k.takeRepeatedly(fmt.Sprintf("%d-%d", c, i), keys); !slices.Equal(codes, again) {
						t.Errorf("request %d-%d got %v, then %v", c, i, codes, again)
					}
					all = append(all, codes...)
				}
			}
			slices.Sort(all)
			a := auditJSON(t, database, "")
			if n := len(slices.Compact(all)); n != clients*requests*keys || a.status != 0 || a.Reserved != int64(n) {
				t.Errorf("the clients got %d different keys; audit %+v", n, a)
			}
		})
	}
}

// takeRepeatedly repeats a request for keys until it is answered, for at most a minute.
func (k *kgsProcess) takeRepeatedly(request string, count int) []string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		answer, err := k.call("TakeKeys", map[string]any{"requestId": request, "count": count})
		if err == nil {
			return answer.Codes
		}
		if time.Now().After(deadline) {
			k.t.Errorf("request %s is not answered within a minute: %v", request, err)
			return nil
		}
	}
}

// A key service that also fills a pool serves keys while Redis is down.
func TestKeyServiceServesKeysWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	p, url := startKeyServiceWith(t, settings(t, sqliteURL(t), redis.URL).Common)
	r := &running{p, t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	r.await("a pool that can be read", func(s admin.Status) bool { return s.PoolKeys != nil })
	redis.Kill()
	r.await("a pool that cannot be read", func(s admin.Status) bool { return s.PoolKeys == nil })
	if answer := r.do(http.MethodGet, r.AdminURL()+"/readyz", ""); answer.status != http.StatusOK {
		t.Errorf("/readyz without Redis: status %d, %s, want 200", answer.status, answer.body)
	}
	remote, err := keyserver.NewRemoteSupply(url)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := remote.Take(t.Context(), 10); err != nil || len(b.Codes) != 10 {
		t.Errorf("TakeKeys without Redis: %v, error %v, want 10 keys", b, err)
	}
	if err := remote.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The log line of the stop does not count keys whose lease has expired, because the key service does not take them back.
func TestLogOfStopDoesNotCountKeysOfExpiredLease(t *testing.T) {
	t.Parallel()
	leases := settings(t, sqliteURL(t), "").Common
	_, url := startKeyServiceWith(t, leases)
	s := settings(t, sqliteURL(t), "")
	s.KeySource, s.KGSURL = "kgs", config.KGSURL(url)
	var log logbuffer.Buffer
	r := startLogging(t, s, &log)
	r.await("local batches", func(s admin.Status) bool { return *s.LocalKeys >= 100 })
	db, err := sqlite.Open(t.Context(), leases.Database.SQLitePath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Write.ExecContext(t.Context(), `UPDATE kgs_leases SET expires_at = 0`); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if !strings.Contains(log.String(), "msg=stopped keys_returned=0 ") {
		t.Errorf("the log lacks a stop with no returned key:\n%s", log.String())
	}
}

func TestKeyServiceLimitsOpenConnections(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), "", "--max-connections=1")
	p, _ := startKeyServiceWith(t, s.Common)
	open := func() (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr().String())
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return conn, err
	}
	if _, err := open(); err != nil {
		t.Fatal(err)
	}
	refused, err := open()
	if err == nil { // if the service closed the connection only after the client had opened it, the read fails
		_, err = refused.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("the key service answers without a request")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	metrics := (&running{p, t, client}).metrics()
	for _, want := range []string{"http_connections 1\n", `http_connections_refused_total{limit="total"} 1` + "\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

// The listeners limit the number of lines of the header of each request, not only of the first request on a connection.
// A header with thousands of lines takes much more memory than its bytes.
func TestListenersLimitLinesOfEachHeader(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), "")
	k, _ := startKeyServiceWith(t, settings(t, sqliteURL(t), "").Common)
	for name, p := range map[string]*program.Program{"server": start(t, s).Program, "key service": k} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(conn)
		for i, lines := range []int{50, 50, 1000} {
			if _, err := io.WriteString(conn, "GET /nothing/here HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("x:\r\n", lines)+"\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%s, request %d: %v", name, i+1, err)
			}
			_, err = io.Copy(io.Discard, answer.Body)
			if err := errors.Join(err, answer.Body.Close()); err != nil {
				t.Error(err)
			}
			if refused := answer.StatusCode == http.StatusRequestHeaderFieldsTooLarge; refused != (lines == 1000) {
				t.Errorf("%s, request %d with %d lines: status %d", name, i+1, lines, answer.StatusCode)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The number of requests in progress on an HTTP/2 connection is limited. Otherwise, a few hundred connections could have tens of
// thousands of requests in progress, which need more memory than a container has.
func TestKeyServiceLimitsRequestsOfHTTP2Connection(t *testing.T) {
	t.Parallel()
	p, _ := startKeyServiceWith(t, settings(t, sqliteURL(t), "").Common)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+emptySettings); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 9) // of the SETTINGS frame of the server (RFC 9113, section 6.5)
	if _, err := io.ReadFull(conn, header); err != nil || header[3] != 4 {
		t.Fatalf("the first frame has the header %x, %v; want SETTINGS", header, err)
	}
	payload := make([]byte, binary.BigEndian.Uint16(header[1:]))
	if _, err := io.ReadFull(conn, payload); err != nil {
		t.Fatal(err)
	}
	got := make(map[uint16]uint32)
	for setting := range slices.Chunk(payload, 6) {
		got[binary.BigEndian.Uint16(setting)] = binary.BigEndian.Uint32(setting[2:])
	}
	const maxConcurrentStreams, maxFrameSize, maxHeaderListSize = 3, 5, 6
	if got[maxConcurrentStreams] != 16 || got[maxFrameSize] > 16<<10 || got[maxHeaderListSize] > 32<<10 {
		t.Errorf("the settings of the server are %v; want 16 concurrent streams, frames of 16 KiB, and headers of at most 32 KiB", got)
	}
}

// A client that keeps an HTTP/2 connection open does not delay the stop.
func TestIdleClientDoesNotDelayStopOfKeyService(t *testing.T) {
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
		t.Errorf("the answer has protocol %s and status %s", resp.Proto, resp.Status)
	}
	began := time.Now()
	if err := p.Stop(); err != nil || time.Since(began) > program.PublicGrace {
		t.Errorf("the stop took %s, error %v", time.Since(began), err)
	}
}

func TestKGSURLWithoutTokenIsRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2"
	s := settings(t, sqliteURL(t), "")
	s.KeySource, s.KGSURL = "kgs", config.KGSURL("http://"+secret+"@host")
	var setting *config.Error
	_, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if !errors.As(err, &setting) || setting.Name != "KGS_URL" || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v; want a config.Error of KGS_URL without the secret", err)
	}
}
