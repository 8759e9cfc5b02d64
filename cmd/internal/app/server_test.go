package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/kgs"
	"keypool/shortener"
	"keypool/web/admin"
)

// settings are those of a server for a test: ports of its own, a small pool.
func settings(t testing.TB, database, redisURL string) ServeSettings {
	t.Helper()
	s, err := ServeFlags{
		ListenAddr: "127.0.0.1:0", KGSWorker: "true", BatchMin: "100", BatchMax: "1000", Fallback: "random",
		KGSTake: "delete", HashAlgorithm: "sha256",
	}.Parse(Flags{
		AdminAddr: "127.0.0.1:0", DatabaseURL: database, RedisURL: redisURL, KGSPermute: "true", CodeLength: "6",
		PoolCapacity: "10000", RestartBelow: "20%", PageBelow: "10%", Migrate: "true", LogLevel: "info",
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sqliteURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "links.db")
}

// running is a server under test and a client of it.
type running struct {
	*Program
	t      *testing.T
	client *http.Client
}

func start(t *testing.T, s ServeSettings) *running {
	t.Helper()
	return startLogging(t, s, io.Discard)
}

func startLogging(t *testing.T, s ServeSettings, log io.Writer) *running {
	t.Helper()
	p, err := StartServer(t.Context(), s, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{p, t, &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.t.Helper()
	r.client.CloseIdleConnections()
	if err := r.Stop(); err != nil {
		r.t.Errorf("stop: %v", err)
	}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(method, url, body string) (a answer) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// shorten makes a link and gives its code.
func (r *running) shorten(url string) string {
	r.t.Helper()
	a := r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url="+url)
	var made struct{ Code string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated {
		r.t.Fatalf("POST /shorten: %+v", a)
	}
	return made.Code
}

func (r *running) wantStatus(code string, status int, location string) {
	r.t.Helper()
	a := r.do(http.MethodGet, "http://"+r.Addr().String()+"/"+code, "")
	if a.status != status || a.header.Get("Location") != location {
		r.t.Errorf("GET /%s: %+v, want %d to %q", code, a, status, location)
	}
}

func (r *running) status() (s admin.Status) {
	r.t.Helper()
	a := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/status", "")
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		r.t.Fatalf("/status: %v in %s", err, a.body)
	}
	return s
}

// await polls /status until it is as wanted.
func (r *running) await(what string, ok func(admin.Status) bool) admin.Status {
	r.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s := r.status()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for %s; the status is %+v", what, s)
		}
		<-tick.C
	}
}

func full(s admin.Status) bool {
	return s.State == string(kgs.StateOK) && s.PoolKeys != nil && *s.PoolKeys >= 9000
}

// command runs `shortener` with the database of s.
func command(t *testing.T, database string, args ...string) (status int, output string) {
	t.Helper()
	status, stdout, stderr := runShortener(t, append([]string{"--database-url=" + database}, args...)...)
	return status, stdout + stderr
}

func TestServerKnowsItsLinksAfterARestart(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	first := start(t, settings(t, url, ""))
	code := first.shorten("https://go.dev/")
	first.wantStatus(code, http.StatusFound, "https://go.dev/")
	first.wantStatus("nope", http.StatusNotFound, "")
	first.await("a full pool", full)
	if status, out := command(t, url, "audit"); status != 0 {
		t.Errorf("audit beside a running server: %d, %s", status, out)
	}
	first.stop()
	if r := audit(t, url, ""); r.status != 0 || len(r.Abandoned) > 0 || r.InBatches != 0 {
		t.Errorf("audit after an orderly stop: %+v; want every key back and none abandoned", r)
	}
	second := start(t, settings(t, url, ""))
	second.wantStatus(code, http.StatusFound, "https://go.dev/")
	if again := second.shorten("https://go.dev/"); again == code {
		t.Errorf("the code %s was given twice", code)
	}
}

// Neither a client that never sends the rest of his request nor a profile that takes
// half a minute may cost the others their orderly end.
func TestSlowClientsDoNotSpoilTheStop(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, ""))
	r.shorten("https://go.dev/")
	for addr, half := range map[net.Addr]string{
		r.Addr():      "POST /shorten HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nurl=",
		r.AdminAddr(): "GET /debug/pprof/profile?seconds=30 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
	}
	r.status() // an answer on the admin listener: the profile is under way by now
	r.stop()
	if r := audit(t, url, ""); r.status != 0 || r.InBatches != 0 {
		t.Errorf("audit after the stop: %+v; want every key back", r)
	}
}

func TestDeletedLinkIsGoneEverywhere(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, ""))
	code := r.shorten("https://go.dev/")
	r.wantStatus(code, http.StatusFound, "https://go.dev/")
	if status, out := command(t, url, "delete", code); status != 0 {
		t.Fatalf("delete: %d, %s", status, out)
	}
	r.wantStatus(code, http.StatusGone, "")
	if status, out := command(t, url, "delete", "nobody"); status != 1 || !strings.Contains(out, "nobody") {
		t.Errorf("delete of a code that no link has: %d, %s", status, out)
	}
}

func TestAuditTellsOfAForeignLink(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	start(t, settings(t, url, "")).stop()
	c, err := openOffline(t.Context(), Flags{
		AdminAddr: ":0", DatabaseURL: url, KGSPermute: "true", CodeLength: "6", PoolCapacity: "10000",
		RestartBelow: "20%", PageBelow: "10%", Migrate: "true", LogLevel: "info",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.openLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := c.space.Code(6, 56_000_000_000)
	if err := plant(t.Context(), c, foreign); err != nil {
		t.Fatal(err)
	}
	if err := c.life.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, out := command(t, url, "audit"); status != 1 || !strings.Contains(out, foreign) {
		t.Errorf("audit: %d, %s, want 1 and the code %s", status, out, foreign)
	}
	if status, out := command(t, "sqlite:"+filepath.Join(t.TempDir(), "none.db"), "audit"); status != 2 {
		t.Errorf("audit of a database that is not there: %d, %s, want 2", status, out)
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), ""))
	taken := settings(t, sqliteURL(t), "")
	taken.ListenAddr = r.Addr().String()
	_, err := StartServer(t.Context(), taken, slog.New(slog.DiscardHandler))
	var setting *SettingError
	if !errors.As(err, &setting) || setting.Name != "LISTEN_ADDR" {
		t.Errorf("a port in use: %v", err)
	}

	url := sqliteURL(t)
	start(t, settings(t, url, "")).stop()
	swapped := settings(t, url, "")
	swapped.Secret = bytes.Repeat([]byte{1}, 16)
	if _, err := StartServer(t.Context(), swapped, slog.New(slog.DiscardHandler)); !errors.Is(err, kgs.ErrWrongSecret) {
		t.Errorf("another secret: %v, want ErrWrongSecret", err)
	}
}

// plant puts a link into the store behind the ledger's back.
func plant(ctx context.Context, c *core, code string) error {
	_, err := c.store.Insert(ctx, []shortener.Link{{
		Code: code, URL: "https://go.dev/", Source: kgs.SourcePool, CreatedAt: time.Now().UTC(),
	}})
	return err
}
