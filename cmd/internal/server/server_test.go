package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
	"keypool/shortener"
	"keypool/web/admin"
)

// settings returns the settings of a server under test, with free ports and a small pool.
func settings(t testing.TB, database, redisURL string, flags ...string) config.Server {
	t.Helper()
	var f shortenerFlags
	flags = append([]string{
		"--listen-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--database-url=" + database, "--redis-url=" + redisURL,
		"--kgs-pool-capacity=10000", "--kgs-batch-max=1000",
	}, flags...)
	_, err := shortenerCommandLine(io.Discard, io.Discard).Parse(&f, flags)
	if err == nil {
		err = f.Complete(serverRules())
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Server
}

func sqliteURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "links.db")
}

// running is a server under test and a client of it.
type running struct {
	*program.Program
	t      *testing.T
	client *http.Client
}

func start(t *testing.T, s config.Server) *running {
	t.Helper()
	return startLogging(t, s, io.Discard)
}

func startLogging(t *testing.T, s config.Server, log io.Writer) *running {
	t.Helper()
	p, err := Start(t.Context(), s, slog.New(slog.NewTextHandler(log, nil)))
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

// answer is a response with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(method, url, body string) answer {
	r.t.Helper()
	return r.doAs("", method, url, body)
}

// doAs sends a request. If bearer is not empty, the request has this token. doAs repeats the request as [answered] does.
func (r *running) doAs(bearer, method, url, body string) answer {
	r.t.Helper()
	return answered(func() answer { return r.once(bearer, method, url, body) })
}

// slowAnswer is less than the time limit of a look-up or a commit in a server, and more than the time that any other refusal takes.
const slowAnswer = 500 * time.Millisecond

// answered repeats a request while the answer is a 503 that took at least slowAnswer. Such an answer means that the server exceeded
// one of its time limits, because the machine is busy. When patience has passed, answered returns the last answer.
func answered(send func() answer) answer {
	for deadline := time.Now().Add(patience); ; {
		began := time.Now()
		if a := send(); a.status != http.StatusServiceUnavailable || time.Since(began) < slowAnswer || time.Now().After(deadline) {
			return a
		}
	}
}

// once sends one request. If bearer is not empty, the request has this token.
func (r *running) once(bearer, method, url, body string) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
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

// shorten creates a link and returns its code.
func (r *running) shorten(url string) string {
	r.t.Helper()
	return r.created(r.postURL(url))
}

// shortenPatiently creates a link on a server without a fallback and returns the code. It repeats the request while no key is
// available: after the start of the server, or when a key source on a busy machine exceeds its time limit of 250 ms.
func (r *running) shortenPatiently(url string) string {
	r.t.Helper()
	var a answer
	r.await("a key", func(admin.Status) bool {
		a = r.postURL(url)
		return a.status != http.StatusServiceUnavailable
	})
	return r.created(a)
}

func (r *running) postURL(url string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url="+url)
}

// created returns the code of the link that the answer describes.
func (r *running) created(a answer) string {
	r.t.Helper()
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

// patience is how long a test waits for a state that a server reaches. It is long, because a busy machine may be slow.
const patience = 2 * time.Minute

// await polls /status until ok returns true.
func (r *running) await(what string, ok func(admin.Status) bool) admin.Status {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s := r.status()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("waited %v without %s; the status is %+v", patience, what, s)
		}
		<-tick.C
	}
}

// hasBatch returns true if the local batch has keys, or if the key source has no local batch. A test whose creations
// must not use the fallback first waits for the batch.
func hasBatch(s admin.Status) bool { return s.LocalKeys == nil || *s.LocalKeys > 0 }

// fullWithBatch reports whether the pool is full and the server has a local batch.
func fullWithBatch(s admin.Status) bool {
	return s.State == string(refill.StateOK) && s.PoolKeys != nil && *s.PoolKeys >= 9000 && hasBatch(s)
}

// command runs the program shortener with this database. It returns the exit status and all output.
func command(t *testing.T, database string, args ...string) (status int, output string) {
	t.Helper()
	status, stdout, stderr := runShortener(t, append([]string{"--database-url=" + database}, args...)...)
	return status, stdout + stderr
}

func TestLinksSurviveRestart(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	first := start(t, settings(t, url, ""))
	code := first.shorten("https://go.dev/")
	first.wantStatus(code, http.StatusFound, "https://go.dev/")
	first.wantStatus("nope", http.StatusNotFound, "")
	first.await("a full pool", fullWithBatch)
	if status, out := command(t, url, "audit"); status != 0 {
		t.Errorf("audit while the server runs: exit status %d, %s", status, out)
	}
	first.stop()
	if r := auditJSON(t, url, ""); r.status != 0 || len(r.Abandoned) > 0 || r.InBatches != 0 {
		t.Errorf("audit after an orderly stop: %+v; want every key returned and none abandoned", r)
	}
	second := start(t, settings(t, url, ""))
	second.wantStatus(code, http.StatusFound, "https://go.dev/")
	if again := second.shorten("https://go.dev/"); again == code {
		t.Errorf("the code %s was assigned twice", code)
	}
}

// The server makes an orderly stop even if a client never sends the rest of its request, or if a CPU
// profile of 30 s is running.
func TestSlowClientsDoNotPreventOrderlyStop(t *testing.T) {
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
	r.status() // a later request is answered, so the profile has started
	r.stop()
	if r := auditJSON(t, url, ""); r.status != 0 || r.InBatches != 0 {
		t.Errorf("audit after the stop: %+v; want every key returned", r)
	}
}

func TestDeletedLinkAnswers410(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, ""))
	code := r.shorten("https://go.dev/")
	r.wantStatus(code, http.StatusFound, "https://go.dev/")
	if status, out := command(t, url, "delete", code); status != 0 {
		t.Fatalf("delete: exit status %d, %s", status, out)
	}
	r.wantStatus(code, http.StatusGone, "")
	if status, out := command(t, url, "delete", "unknown"); status != 1 || !strings.Contains(out, "unknown") {
		t.Errorf("delete of an unknown code: exit status %d, %s", status, out)
	}
}

func TestAuditReportsLinkWithUnreservedCode(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	start(t, settings(t, url, "")).stop()
	c, err := app.OpenOffline(t.Context(), settings(t, url, "").Common, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.OpenLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := c.Space.Code(6, 56_000_000_000)
	if err := plant(t.Context(), c, foreign); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, out := command(t, url, "audit"); status != 1 || !strings.Contains(out, foreign) {
		t.Errorf("audit: exit status %d, %s; want 1 and the code %s", status, out, foreign)
	}
	if status, out := command(t, "sqlite:"+filepath.Join(t.TempDir(), "none.db"), "audit"); status != 2 {
		t.Errorf("audit of a missing database: exit status %d, %s; want 2", status, out)
	}
}

func TestStartFailsIfPortIsInUseOrSecretIsWrong(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), ""))
	taken := settings(t, sqliteURL(t), "")
	taken.ListenAddr = config.Address(r.Addr().String())
	_, err := Start(t.Context(), taken, slog.New(slog.DiscardHandler))
	var setting *config.Error
	if !errors.As(err, &setting) || setting.Name != "LISTEN_ADDR" {
		t.Errorf("port in use: error %v, want a config.Error of LISTEN_ADDR", err)
	}

	url := sqliteURL(t)
	start(t, settings(t, url, "")).stop()
	swapped := settings(t, url, "")
	swapped.Secret = bytes.Repeat([]byte{1}, 16)
	if _, err := Start(t.Context(), swapped, slog.New(slog.DiscardHandler)); !errors.Is(err, ledger.ErrWrongSecret) {
		t.Errorf("wrong secret: error %v, want ErrWrongSecret", err)
	}
}

// A standby accepts no writes until its promotion. So the error is no config.Error, and a supervisor starts the server again.
func TestStartNamesDatabaseThatAcceptsNoWrites(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	refused := func(when string) {
		t.Helper()
		_, err := Start(t.Context(), settings(t, url+"&default_transaction_read_only=on", ""), slog.New(slog.DiscardHandler))
		var setting *config.Error
		if err == nil || errors.As(err, &setting) || !strings.Contains(err.Error(), "DATABASE_URL leads to a PostgreSQL that accepts no writes") {
			t.Errorf("%s: error %v, want an error that names DATABASE_URL and is no config.Error", when, err)
		}
	}
	refused("without tables")
	start(t, settings(t, url, "")).stop()
	refused("with tables")
}

// plant inserts a link whose code the ledger did not issue.
func plant(ctx context.Context, c *app.Core, code string) error {
	connections, err := openConnections(ctx, c)
	if err != nil {
		return err
	}
	store, _, err := openStore(ctx, c, connections, "memory-pool", openOrder)
	if err != nil {
		return err
	}
	_, err = store.Insert(ctx, []shortener.Link{{
		Code: code, URL: "https://go.dev/", Source: kgs.SourcePool, CreatedAt: time.Now().UTC(),
	}})
	return err
}

// A client that opens many connections to the admin listener must not use up the file descriptors that the public listener needs.
func TestAdminListenerLimitsOpenConnections(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), ""))
	open := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.AdminAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the error does not matter, because the test may have closed the connection
		return conn
	}
	ask := func(conn net.Conn, limit time.Duration) error {
		if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	const request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var conns []net.Conn
	for range 128 {
		conn := open()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := ask(conn, time.Minute); err != nil {
			t.Fatalf("connection %d: %v", len(conns)+1, err)
		}
		conns = append(conns, conn)
	}
	waiting := open()
	if _, err := io.WriteString(waiting, request); err != nil {
		t.Fatal(err)
	}
	if err := ask(waiting, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beside 128 open connections, a request ended with %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if err := conns[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := ask(waiting, time.Minute); err != nil {
		t.Errorf("after the end of a connection, the request that waited: %v", err)
	}
}
