package keyserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func TestEachClientHasSeparateKeyRateLimit(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		leaveTen(t, l)
		s := serve(t, l.Ledger, func(c *Config) { c.Rate = 10 })
		if r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": "a", "count": MaxCount}); len(r.Codes) != 10 {
			t.Errorf("TakeKeys with 10 codes left: status %d, %s, want 10 keys", r.status, r.text)
		}
		r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": "b", "count": 1000})
		wait, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != http.StatusTooManyRequests || err != nil || wait < 80 || wait > 100 {
			t.Errorf("status %d, Retry-After %d, want 429 and nearly 100 seconds; error %v, %s", r.status, wait, err, r.text)
		}
		if r := s.call("Bearer "+yours, "TakeKeys", map[string]any{"requestId": "b", "count": 1000}); len(r.Codes) != 10 {
			t.Errorf("TakeKeys of another client: %+v, want 10 keys", r)
		}
		want := strings.NewReader(`
# HELP kgs_service_keys_total Keys in replies to clients. The keys of a repeated request are counted again.
# TYPE kgs_service_keys_total counter
kgs_service_keys_total{client="one"} 10
kgs_service_keys_total{client="two"} 10
# HELP kgs_service_requests_total Requests of clients, by procedure and by the status code of the reply. The code unread counts requests whose message is malformed, too large or did not arrive.
# TYPE kgs_service_requests_total counter
kgs_service_requests_total{code="ok",procedure="TakeKeys"} 2
kgs_service_requests_total{code="resource_exhausted",procedure="TakeKeys"} 1
`)
		if err := testutil.GatherAndCompare(s.registry, want, "kgs_service_keys_total", "kgs_service_requests_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestConcurrentRequestsOfEachClientAreLimited makes the requests of one client wait for the ledger, until their
// number reaches the limit. The server must refuse one more request of this client, and accept a request
// of another client.
func TestConcurrentRequestsOfEachClientAreLimited(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	s := serve(t, l.Ledger, nil)
	tx, err := l.DB.BeginTx(t.Context(), nil) // occupies the only connection that can write
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan reply, maxUnderWay+1)
	var wg sync.WaitGroup
	for i := range maxUnderWay + 1 {
		wg.Go(func() {
			r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": fmt.Sprint(i), "count": 1})
			if r.status == http.StatusTooManyRequests {
				refused <- r
			}
		})
	}
	if r := <-refused; r.header.Get("Retry-After") != "1" || r.Code != "resource_exhausted" {
		t.Errorf("the refusal has the header %v and the text %s, want Retry-After 1 and resource_exhausted", r.header, r.text)
	}
	if r := s.call("Bearer "+yours, "Status", map[string]any{}); r.status != http.StatusOK { // Status only reads
		t.Errorf("Status of another client: status %d, %s, want 200", r.status, r.text)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	s.take("after", 1)
}

// TestKeyRateLimitCountsOnlyNewKeys gives a client an allowance for exactly two requests. Repeated and
// failed requests must not reduce the allowance.
func TestKeyRateLimitCountsOnlyNewKeys(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	leaveTen(t, l)
	s := serve(t, l.Ledger, func(c *Config) { c.Rate = 1 })
	ask := func(request string, count, want int) {
		t.Helper()
		r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": request, "count": count})
		if r.status != want {
			t.Errorf("request %s: status %d, want %d; %s", request, r.status, want, r.Message)
		}
	}
	ask("a", MaxCount/2, http.StatusOK)
	for range 3 {
		ask("a", MaxCount/2, http.StatusOK)
	}
	l.Exec(t, `ALTER TABLE kgs_leases RENAME TO hidden`)
	ask("b", MaxCount/2, http.StatusServiceUnavailable)
	l.Exec(t, `ALTER TABLE hidden RENAME TO kgs_leases`)
	ask("b", MaxCount, http.StatusTooManyRequests)
	ask("b", MaxCount/2, http.StatusOK)
	ask("c", MaxCount/2, http.StatusTooManyRequests)
}

// A request is in progress even if its message has not arrived. A request with a malformed message is in progress only
// until its reply.
func TestRequestsWithoutMessagesAreLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	const timeout = "Connect-Timeout-Ms"
	for range maxUnderWay + 1 { // each of these requests ends
		if r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"count": "x"}); r.status != http.StatusBadRequest {
			t.Fatalf("a malformed message: status %d, %s", r.status, r.text)
		}
	}
	var sends []*io.PipeWriter
	var wg sync.WaitGroup
	for range maxUnderWay {
		body, send := io.Pipe()
		sends = append(sends, send)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/keypool.kgs.v1.KeyService/TakeKeys", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+mine)
		r.Header.Set(timeout, "1") // the time limit of the client does not end the request while its message is read
		r.Header.Set("Expect", "100-continue")
		sender := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
		t.Cleanup(sender.CloseIdleConnections)
		wg.Go(func() {
			if resp, err := sender.Do(r); err == nil {
				resp.Body.Close()
			}
		})
		if _, err := io.WriteString(send, "{"); err != nil { // returns when the server reads the body
			t.Fatal(err)
		}
	}
	if r := s.call("Bearer "+mine, "TakeKeys", map[string]any{"requestId": "a", "count": 1}); r.status != http.StatusTooManyRequests {
		t.Errorf("one more request: status %d, %s, want 429", r.status, r.text)
	}
	for _, send := range sends {
		send.Close()
	}
	wg.Wait()
	s.take("after", 1)
}

// TestLargeMessagesOfEachClientAreLimited makes maxLarge requests of one client with large messages wait for the ledger.
// The server must refuse one more large message of this client. It must accept a small message of this client, and a
// large message of another client. A RemoteSupply must repeat a refused request until the server accepts the request.
func TestLargeMessagesOfEachClientAreLimited(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	s := serve(t, l.Ledger, nil)
	remote := supply(t, s.address(mine))
	refused := make(chan struct{}, 1)
	remote.http.Transport = signal{remote.http.Transport.(*http.Transport), refused}
	b, err := remote.Take(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := l.DB.BeginTx(t.Context(), nil) // occupies the only connection that can write
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan reply, maxLarge+1)
	for range maxLarge + 1 {
		go func() {
			answers <- s.call("Bearer "+mine, "ReturnKeys", map[string]any{"leaseId": b.ID, "unused": b.Codes})
		}()
	}
	if r := <-answers; r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "1" || r.Code != "resource_exhausted" {
		t.Errorf("one more large message: status %d, %s, want 429 and Retry-After 1", r.status, r.text)
	}
	want := strings.NewReader(`
# HELP kgs_service_requests_total Requests of clients, by procedure and by the status code of the reply. The code unread counts requests whose message is malformed, too large or did not arrive.
# TYPE kgs_service_requests_total counter
kgs_service_requests_total{code="ok",procedure="TakeKeys"} 1
kgs_service_requests_total{code="resource_exhausted",procedure="ReturnKeys"} 1
`)
	if err := testutil.GatherAndCompare(s.registry, want, "kgs_service_requests_total"); err != nil {
		t.Error(err)
	}
	invalid := map[string]any{"unused": slices.Repeat(b.Codes, 2)} // the server checks the codes before it calls the ledger
	if r := s.call("Bearer "+yours, "ReturnKeys", invalid); r.status != http.StatusBadRequest {
		t.Errorf("a large message of another client: status %d, %s, want 400", r.status, r.text)
	}
	if r := s.call("Bearer "+mine, "Status", map[string]any{}); r.status != http.StatusOK {
		t.Errorf("a small message: status %d, %s, want 200", r.status, r.text)
	}
	settled := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { settled <- remote.Settle(ctx, b, b.Codes, nil) }()
	<-refused
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	for range maxLarge {
		if r := <-answers; r.status != http.StatusOK {
			t.Errorf("a large message: status %d, %s, want 200", r.status, r.text)
		}
	}
	if err := <-settled; err != nil {
		t.Errorf("Settle: %v", err)
	}
}

// If the servers of a client stop together, they return their keys in large messages at the same time. The key service
// must refuse none of these messages.
func TestLargeMessageWaitsForOtherLargeMessagesOfSameClient(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	remote := supply(t, s.address(mine))
	batches := make([]*kgs.Batch, 4*maxLarge)
	for i := range batches {
		var err error
		if batches[i], err = remote.Take(t.Context(), 5000); err != nil {
			t.Fatal(err)
		}
	}
	answers := make(chan reply, len(batches))
	for _, b := range batches {
		go func() {
			answers <- s.call("Bearer "+mine, "ReturnKeys", map[string]any{"leaseId": b.ID, "unused": b.Codes})
		}()
	}
	for range batches {
		if r := <-answers; r.status != http.StatusOK {
			t.Errorf("status %d, %s, want 200", r.status, r.text)
		}
	}
}

// signal is a transport that reports the first answer with the status 429.
type signal struct {
	*http.Transport
	refused chan struct{}
}

// RoundTrip implements [http.RoundTripper].
func (s signal) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.Transport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		occupy(s.refused)
	}
	return resp, err
}

// While the server sends the answers of maxUnderWay requests of a client, the client may have maxUnderWay further
// requests in progress, and no more.
func TestAnswersThatAreBeingSentAreLimited(t *testing.T) {
	t.Parallel()
	c := newClients([]Client{{"one", mine}}, 1)[0]
	var turns []*turn
	begin := func(want int) {
		for n := range want + 1 {
			turns = append(turns, new(turn))
			if began := turns[len(turns)-1].begin(c); began != (n < want) {
				t.Fatalf("request %d begins: %v, want %v", n+1, began, n < want)
			}
		}
	}
	begin(maxUnderWay)
	for _, turn := range turns {
		turn.endWork()
	}
	begin(maxUnderWay)
	for _, turn := range turns[maxUnderWay+1:] {
		turn.endWork()
	}
	begin(0) // the answers of 2*maxUnderWay requests are being sent
	for _, turn := range turns {
		turn.end()
		turn.end() // has no effect
	}
	begin(maxUnderWay)
}

// TestKeyRateLimitHoldsForConcurrentRequests lets many goroutines call pay at the same time, with an allowance
// for two of them. In each of 100 rounds, exactly two calls must succeed. The other calls must not
// change the allowance.
func TestKeyRateLimitHoldsForConcurrentRequests(t *testing.T) {
	t.Parallel()
	c := newClients([]Client{{"one", mine}}, 1)[0]
	for range 100 {
		var paid atomic.Int64
		var wg sync.WaitGroup
		for range maxUnderWay {
			wg.Go(func() {
				if c.pay(MaxCount/2) == nil {
					paid.Add(1)
				}
			})
		}
		wg.Wait()
		if n := paid.Load(); n != 2 {
			t.Fatalf("%d goroutines got keys, want 2", n)
		}
		for range 2 {
			c.payBack(MaxCount / 2)
		}
	}
}
