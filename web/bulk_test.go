package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/internal/media"
)

// A bulk request with the maximum number of lines gets all answers, although the store is slow.
func TestSlowBulkRequestGetsAllAnswers(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.insert = 400 * time.Millisecond
		began, lines := time.Now(), 0
		body := bufio.NewScanner(begin(t, c, http.MethodPost, "/api/links", bulkBody(maxBulkLines, ""), "Content-Type", media.NDJSON).body)
		for body.Scan() {
			lines++
			if want := fmt.Sprintf(`{"line":%d,"status":201,`, lines); !strings.HasPrefix(body.Text(), want) {
				t.Fatalf("answer %d is %s", lines, body.Text())
			}
		}
		if lines != maxBulkLines || body.Err() != nil {
			t.Errorf("%d answers, want %d: %v", lines, maxBulkLines, body.Err())
		}
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("the request took %v, too short for a test of a slow request", took)
		}
	})
}

// bulkBody returns the given number of lines for a bulk request. Each line is a JSON object with a url, followed by
// the text in the parameter more.
func bulkBody(lines int, more string) string {
	return strings.Repeat(`{"url":"https://go.dev"`+more+"}\n", lines)
}

// A bulk request with lines that must wait for each other ends after five minutes. The client notices that answers are
// missing.
func TestBulkRequestEndsAfterFiveMinutes(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.insert = 400 * time.Millisecond
		began := time.Now()
		resp := begin(t, c, http.MethodPost, "/api/links", bulkBody(1000, `,"alias":"same"`), "Content-Type", media.NDJSON)
		answers, err := io.ReadAll(resp.body)
		if n := strings.Count(string(answers), "\n"); n < 700 || n >= 1000 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d answers and the error %v, want some of the answers and io.ErrUnexpectedEOF", n, err)
		}
		if took := time.Since(began); took > 5*time.Minute+time.Second {
			t.Errorf("the request took %v", took)
		}
	})
}

// bulkStatuses sends a bulk request. After the first answer, it calls afterFirst. It returns how many answers have each
// status.
func bulkStatuses(t *testing.T, c *http.Client, lines int, afterFirst func()) (counts map[string]int, err error) {
	t.Helper()
	body := bufio.NewScanner(begin(t, c, http.MethodPost, "/api/links", bulkBody(lines, ""), "Content-Type", media.NDJSON).body)
	counts = make(map[string]int)
	for n := 0; body.Scan(); n++ {
		if n == 0 {
			afterFirst()
		}
		_, status, _ := strings.Cut(body.Text(), `"status":`)
		counts[status[:3]]++
	}
	return counts, body.Err()
}

// After a token is revoked during a bulk request, the server still answers each line, but creates no links for the parts of
// the request that it had not begun.
func TestBulkRequestCreatesNoMoreLinksAfterTokenIsRevoked(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.insert = 400 * time.Millisecond
		const lines = 5 * 128 // five parts
		counts, err := bulkStatuses(t, c, lines, func() { store.revoked.Store(true) })
		if created, refused := counts["201"], counts["401"]; err != nil || created == 0 || created > 2*128 || refused != lines-created {
			t.Errorf("the answers have the statuses %v and the error %v; want some links, and 401 for all lines of the last parts", counts, err)
		}
		if n := store.refusals.Load(); n != 1 {
			t.Errorf("the server checked the token %d times after the revocation, want once", n)
		}
	})
}

// If a token cannot be checked during a bulk request, the server refuses one part of the request and checks the token again.
func TestBulkRequestContinuesAfterTokenCheckFails(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.insert = 400 * time.Millisecond
		const lines = 4 * 128 // four parts
		counts, err := bulkStatuses(t, c, lines, func() { store.outages.Store(1) })
		if err != nil || counts["503"] != 128 || counts["201"] != lines-128 {
			t.Errorf("the answers have the statuses %v and the error %v; want 503 for one part", counts, err)
		}
	})
}

// A client that sends the body of a bulk request too slowly gets an answer with status 400.
func TestSlowBulkBodyIsRefused(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, _ *slowStore) {
		body, send := io.Pipe()
		defer send.Close()
		go func() { _, _ = io.WriteString(send, bulkBody(1, "")) }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://keypool.test/api/links", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer x")
		r.Header.Set("Content-Type", media.NDJSON)
		began := time.Now()
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusBadRequest || took != 10*time.Second {
			t.Errorf("status %d after %v, want 400 after 10 s", resp.StatusCode, took)
		}
	})
}

// watchedTokens accepts every token, and reports the context of each request.
type watchedTokens struct {
	anyToken
	requests chan context.Context
}

func (w watchedTokens) Authenticate(ctx context.Context, bearer string) (token.Token, error) {
	w.requests <- ctx
	return w.anyToken.Authenticate(ctx, bearer)
}

// heldStore is a store whose first Insert waits until the test lets it continue.
type heldStore struct {
	shortener.Store
	once          sync.Once
	begun, finish chan struct{}
}

func (s *heldStore) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	s.once.Do(func() {
		close(s.begun)
		<-s.finish
	})
	return s.Store.Insert(ctx, links)
}

// If a client ends its side of the connection before all lines of a bulk request are answered, the answer breaks off.
func TestBulkAnswerBreaksOffIfClientHalfClosesConnection(t *testing.T) {
	t.Parallel()
	for protocol, want := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			requests := make(chan context.Context, 1)
			held := &heldStore{begun: make(chan struct{}), finish: make(chan struct{})}
			service, _ := newService(t, func(s shortener.Store) shortener.Store {
				held.Store = s
				return held
			})
			s := newSite(t, func(c *PublicConfig) { c.Service, c.Tokens = service, watchedTokens{requests: requests} })
			conn := s.dial(t)
			body := bulkBody(1000, "")
			fmt.Fprintf(conn, "POST /api/links %s\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s",
				protocol, len(body), body)
			request := <-requests
			<-held.begun
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			<-request.Done()
			close(held.finish)
			wantBroken(t, conn, want)
		})
	}
}

// panickingStore panics when it looks a code up.
type panickingStore struct{ shortener.Store }

func (panickingStore) Lookup(context.Context, string) (shortener.Link, error) {
	panic("broken look-up")
}

// If the creation for one line panics, only this line gets an error. In this test, the second line asks for an alias that is
// in use, and the look-up of the alias panics.
func TestPanicFailsOnlyOneLineOfBulkRequest(t *testing.T) {
	t.Parallel()
	service, _ := newService(t, func(s shortener.Store) shortener.Store { return panickingStore{s} })
	s := changedTokenSite(t, func(c *PublicConfig, _ *token.Registry) { c.Service = service })
	o := s.owner(t, "docs", everyScope)
	answers := o.bulk(t, bulkBody(1, `,"alias":"one"`)+bulkBody(1, `,"alias":"one","title":"other"`)+bulkBody(1, `,"alias":"two"`))
	for i, want := range []int{http.StatusCreated, http.StatusInternalServerError, http.StatusCreated} {
		if answers[i].Status != want {
			t.Errorf("answer %d: %+v, want status %d", i+1, answers[i], want)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "broken look-up") || !strings.Contains(log, "bulk_test.go") {
		t.Errorf("the log lacks the cause or the stack of the panic: %s", log)
	}
}
