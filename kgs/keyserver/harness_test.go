package keyserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keyserver/reflection"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// leaveTen leaves 10 keys of length 9 and 10 keys of length 10. With so few keys, a test can use up
// the allowance of a client in one request: a request for MaxCount keys gets 10 keys, but reduces the
// allowance by MaxCount.
func leaveTen(t *testing.T, l kgstest.LedgerUnderTest) {
	t.Helper()
	l.Exec(t, `UPDATE kgs_spaces SET next = CASE WHEN length < 9 THEN size ELSE size - 10 END`)
}

// These are the tokens of the two clients of a server under test.
const (
	mine  = "token-of-client-one"
	yours = "token-of-client-two"
)

// service is a server under test.
type service struct {
	*httptest.Server
	t        *testing.T
	space    *codespace.Space
	registry *prometheus.Registry
}

// serve starts a server with the ledger l. The function change adjusts the settings; it may be nil.
func serve(t *testing.T, l *ledger.Ledger, change func(*Config)) *service {
	t.Helper()
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, space: space, registry: prometheus.NewRegistry()}
	cfg := Config{
		Ledger: l, Space: space, Length: 6, Clients: []Client{{"one", mine}, {"two", yours}}, Rate: 1_000_000,
		Ready: func() bool { return true }, Logger: slog.New(slog.DiscardHandler),
		Metrics: kgs.NewMetrics(s.registry), Registerer: s.registry, Reflection: reflection.Handle,
	}
	if change != nil {
		change(&cfg)
	}
	s.Server = httptest.NewUnstartedServer(New(cfg))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// reply is the reply to a JSON call, successful or not.
type reply struct {
	status int
	header http.Header
	text   string

	LeaseID   string    `json:"leaseId"`
	ExpiresAt time.Time `json:"expiresAt"`
	Codes     []string  `json:"codes"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
}

// call calls a procedure with JSON over HTTP. It is safe for concurrent use.
func (s *service) call(authorization, procedure string, request map[string]any) (r reply) {
	s.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Error(err)
		return r
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/keypool.kgs.v1.KeyService/"+procedure, bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		s.t.Error(err)
		return r
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
		return r
	}
	if err := json.Unmarshal(text, &r); err != nil {
		s.t.Errorf("%s: %v in %s", procedure, err, text)
	}
	r.status, r.header, r.text = resp.StatusCode, resp.Header, string(text)
	return r
}

// take takes keys as the first client. The test fails if take does not get count keys.
func (s *service) take(request string, count int) reply {
	s.t.Helper()
	r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": request, "count": count})
	if r.status != http.StatusOK || len(r.Codes) != count {
		s.t.Errorf("TakeKeys %s: status %d, %d keys, %s", request, r.status, len(r.Codes), r.Message)
	}
	return r
}

// address returns the URL of s with the given token.
func (s *service) address(token string) string {
	return strings.Replace(s.URL, "//", "//client:"+token+"@", 1)
}

// reserved returns how many numbers the ledger has reserved.
func reserved(t *testing.T, l kgstest.LedgerUnderTest) int64 {
	t.Helper()
	counters, err := l.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counters.Reserved()
}
