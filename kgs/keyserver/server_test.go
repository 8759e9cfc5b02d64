package keyserver

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/kgs"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// TestRepeatedRequestGetsSameLease sends one request several times to two servers with the same ledger. Then it
// sends the request to a new server, as after a crash of the two servers. All replies must have the
// same lease.
func TestRepeatedRequestGetsSameLease(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		servers := []*service{serve(t, l.Ledger, nil), serve(t, l.Reopen().Ledger, nil)}
		replies := make([]reply, 16)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() { replies[i] = servers[i%2].take("a", 1000) })
		}
		wg.Wait()
		for _, r := range append(replies[1:], serve(t, l.Reopen().Ledger, nil).take("a", 1000)) {
			if diff := cmp.Diff(replies[0].Codes, r.Codes); diff != "" || r.LeaseID != replies[0].LeaseID {
				t.Fatalf("the same request got the leases %s and %s; codes (-first +this):\n%s", replies[0].LeaseID, r.LeaseID, diff)
			}
		}
		if n := reserved(t, l); n != 1000 {
			t.Errorf("%d numbers are reserved, want 1000", n)
		}
		if until := time.Until(replies[0].ExpiresAt); until < 59*time.Minute || until > 61*time.Minute {
			t.Errorf("the lease expires in %s, want one hour", until)
		}
	})
}

func TestReturnedKeysAreLeasedAgain(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := serve(t, l.Ledger, nil)
		first := s.take("a", 100)
		for range 2 {
			r := s.call("Bearer "+mine, "ReturnKeys", map[string]any{
				"leaseId": first.LeaseID, "unused": first.Codes[40:60], "lost": first.Codes[:10],
			})
			if r.status != http.StatusOK {
				t.Fatalf("ReturnKeys = %+v, want status 200", r)
			}
		}
		if diff := cmp.Diff(first.Codes[40:60], s.take("b", 20).Codes); diff != "" {
			t.Errorf("keys of the next lease (-returned +next):\n%s", diff)
		}
		snapshot, err := l.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		abandoned := map[string]int64{}
		for _, r := range snapshot.Rows {
			if r.State == ledger.StateAbandoned {
				abandoned[r.Reason] += r.Len()
			}
		}
		if diff := cmp.Diff(map[string]int64{kgs.ReasonClient: 70, kgs.ReasonLostReply: 10}, abandoned); diff != "" {
			t.Errorf("abandoned numbers by reason (-want +got):\n%s", diff)
		}
		// The second ReturnKeys must abandon nothing, so the metrics must have the same counts as the ledger.
		for reason, want := range abandoned {
			if got := kgstest.Counter(t, s.registry, "kgs_keys_abandoned_total", reason); got != float64(want) {
				t.Errorf("kgs_keys_abandoned_total has %v keys with the reason %s, want %d", got, reason, want)
			}
		}
	})
}

func TestKeyServiceRefusesInvalidRequests(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := serve(t, l.Ledger, nil)
		const me, you = "Bearer " + mine, "Bearer " + yours
		over, returned, alive := s.take("over", 10), s.take("returned", 10), s.take("alive", 10)
		s.call(me, "ReturnKeys", map[string]any{"leaseId": returned.LeaseID})
		l.Exec(t, `UPDATE kgs_leases SET expires_at = `+l.Now+` WHERE request_id = 'over'`)
		type request = map[string]any
		for name, tt := range map[string]struct {
			authorization, procedure string
			request                  request
			status                   int
			code, says               string
		}{
			"no token":           {"", "TakeKeys", request{"requestId": "b", "count": 1}, 401, "unauthenticated", "Bearer TOKEN"},
			"a wrong token":      {me + "x", "TakeKeys", request{"requestId": "b", "count": 1}, 401, "unauthenticated", ""},
			"half a token":       {me[:len(me)-1], "Status", request{}, 401, "unauthenticated", ""},
			"a wrong scheme":     {"Basic " + mine, "Status", request{}, 401, "unauthenticated", ""},
			"no request id":      {me, "TakeKeys", request{"count": 1}, 400, "invalid_argument", "request_id"},
			"a long request id":  {me, "TakeKeys", request{"requestId": strings.Repeat("x", 129), "count": 1}, 400, "invalid_argument", "128"},
			"a blank in the id":  {me, "TakeKeys", request{"requestId": "a b", "count": 1}, 400, "invalid_argument", "visible"},
			"no count":           {me, "TakeKeys", request{"requestId": "b"}, 400, "invalid_argument", "100000"},
			"too high a count":   {me, "TakeKeys", request{"requestId": "b", "count": MaxCount + 1}, 400, "invalid_argument", "100000"},
			"a count in letters": {me, "TakeKeys", request{"requestId": "b", "count": "x"}, 400, "invalid_argument", ""},
			"a returned lease":   {me, "TakeKeys", request{"requestId": "returned", "count": 10}, 400, "failed_precondition", "returned"},
			"an expired lease":   {me, "TakeKeys", request{"requestId": "over", "count": 10}, 400, "failed_precondition", "expired"},
			"returning too late": {me, "ReturnKeys", request{"leaseId": over.LeaseID, "unused": over.Codes},
				400, "failed_precondition", "expired"},
			"another client's lease": {you, "ReturnKeys", request{"leaseId": alive.LeaseID, "unused": alive.Codes},
				404, "not_found", "no such lease"},
			"no such lease": {me, "ReturnKeys", request{"leaseId": "4711"}, 404, "not_found", "no such lease"},
			"keys of another lease": {me, "ReturnKeys", request{"leaseId": alive.LeaseID, "unused": over.Codes},
				400, "invalid_argument", "does not belong to this lease"},
			"an invalid key": {me, "ReturnKeys", request{"leaseId": alive.LeaseID, "unused": []string{strings.Repeat("-", 1000)}},
				400, "invalid_argument", "unused must contain codes of 3 to 10 characters"},
			"a key that occurs twice": {me, "ReturnKeys", request{"leaseId": alive.LeaseID, "lost": []string{alive.Codes[0], alive.Codes[0]}},
				400, "invalid_argument", "lost must contain"},
			"keys that are unused and lost": {me, "ReturnKeys", request{"leaseId": alive.LeaseID, "unused": alive.Codes, "lost": alive.Codes},
				400, "invalid_argument", "twice"},
		} {
			r := s.call(tt.authorization, tt.procedure, tt.request)
			if r.status != tt.status || r.Code != tt.code || !strings.Contains(r.Message, tt.says) {
				t.Errorf("%s: status %d, %s; want %d %s %q", name, r.status, r.text, tt.status, tt.code, tt.says)
			}
			if strings.Contains(r.text, "ledger:") || strings.Contains(r.text, mine) || len(r.text) > 500 {
				t.Errorf("%s: the reply %s contains the token or internal text, or is too long", name, r.text)
			}
		}
		if again := s.take("alive", 10); again.LeaseID != alive.LeaseID {
			t.Errorf("after refused requests, the request got the lease %s, want %s", again.LeaseID, alive.LeaseID)
		}
		if n := reserved(t, l); n != 30 {
			t.Errorf("%d numbers are reserved, want the 30 numbers of the three leases", n)
		}
	})
}

func TestKeyServiceRefusesTooLargeRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	r := s.call("Bearer "+mine, "ReturnKeys", map[string]any{"unused": []string{strings.Repeat("x", maxRequest)}})
	if r.Code != "resource_exhausted" {
		t.Errorf("a request above the size limit: status %d, %.200s, want resource_exhausted", r.status, r.text)
	}
}

// TestRequestsAreCountedOnce sends messages that the server cannot read, requests that it refuses, and a request that
// succeeds. The server must count each request once.
func TestRequestsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	const me = "Bearer " + mine
	s.call(me, "TakeKeys", map[string]any{"count": "x"})                                              // malformed
	s.call(me, "ReturnKeys", map[string]any{"unused": []string{strings.Repeat("x", maxRequest)}})     // too large
	s.call(me, "ReturnKeys", map[string]any{"unused": []string{strings.Repeat("x", 2*largeMessage)}}) // no code
	s.call("", "Status", map[string]any{})
	s.take("a", 1)
	want := strings.NewReader(`
# HELP kgs_service_requests_total Requests of clients, by procedure and by the status code of the reply. The code unread counts requests whose message is malformed, too large or did not arrive.
# TYPE kgs_service_requests_total counter
kgs_service_requests_total{code="invalid_argument",procedure="ReturnKeys"} 1
kgs_service_requests_total{code="ok",procedure="TakeKeys"} 1
kgs_service_requests_total{code="unauthenticated",procedure="Status"} 1
kgs_service_requests_total{code="unread",procedure="ReturnKeys"} 1
kgs_service_requests_total{code="unread",procedure="TakeKeys"} 1
`)
	if err := testutil.GatherAndCompare(s.registry, want, "kgs_service_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestRequestForMaximumNumberOfKeysSucceeds takes MaxCount codes of the greatest length with Protobuf, and returns
// them with JSON, which needs more bytes.
func TestRequestForMaximumNumberOfKeysSucceeds(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	s := serve(t, l.Ledger, func(c *Config) { c.Length = 10 })
	b, err := supply(t, s.address(mine)).Take(t.Context(), 2*MaxCount)
	if err != nil || len(b.Codes) != MaxCount {
		t.Fatalf("Take did not return MaxCount keys: error %v", err)
	}
	r := s.call("Bearer "+mine, "ReturnKeys", map[string]any{"leaseId": b.ID, "unused": b.Codes})
	if r.status != http.StatusOK {
		t.Errorf("ReturnKeys of all keys: status %d, %s, want 200", r.status, r.text)
	}
	s.take("next", 100)
	if n := reserved(t, l); n != MaxCount {
		t.Errorf("%d numbers are reserved, want %d because returned keys are leased again", n, MaxCount)
	}
}

func TestKeyServiceReturnsUnavailableWithoutDatabase(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	var log bytes.Buffer
	s := serve(t, l.Ledger, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	l.Exec(t, `ALTER TABLE kgs_leases RENAME TO hidden`)
	for range 10 {
		for procedure, request := range map[string]map[string]any{
			"TakeKeys":   {"requestId": "a", "count": 1},
			"ReturnKeys": {"leaseId": "1"},
		} {
			r := s.call("Bearer "+mine, procedure, request)
			if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "1" || strings.Contains(r.text, "kgs_leases") {
				t.Errorf("%s: status %d, %s, want 503 and Retry-After 1", procedure, r.status, r.text)
			}
		}
	}
	if n := strings.Count(log.String(), "kgs_leases"); n != 1 { // the server logs at most one line a minute
		t.Errorf("20 failed requests wrote %d lines to the log, want 1:\n%s", n, log.String())
	}
	l.Exec(t, `ALTER TABLE hidden RENAME TO kgs_leases`)
	s.take("a", 1)
}

func TestParseClientsAcceptsOnlyPairsOfNameAndToken(t *testing.T) {
	t.Parallel()
	got, err := ParseClients("one=" + mine + ", b-2=" + yours + "==")
	if diff := cmp.Diff([]Client{{"one", mine}, {"b-2", yours + "=="}}, got); diff != "" || err != nil {
		t.Errorf("error %v, clients (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"one", "one=short", "=" + mine, "One=" + mine, strings.Repeat("x", 33) + "=" + mine, "one=" + mine + ",",
		"one=" + mine + ",one=" + yours, "one=" + mine + ",two=" + mine, "one=" + mine + " " + yours,
	} {
		if got, err := ParseClients(wrong); err == nil || strings.Contains(err.Error(), mine) {
			t.Errorf("ParseClients(%q) = %v, error %v, want an error without the token", wrong, got, err)
		}
	}
}
