package keyserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"keypool/kgs"
	"keypool/kgs/keyserver/kgsv1"
	"keypool/kgs/kgstest"
)

func supply(t *testing.T, address string) *RemoteSupply {
	t.Helper()
	s, err := NewRemoteSupply(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.http.CloseIdleConnections)
	s.closeTimeout = time.Minute // so that no Close times out on a slow machine
	return s
}

// behindACut returns a service that forwards requests to s. While cut is true, s processes each
// request, but the connection is closed before the reply.
func behindACut(t *testing.T, s *service, cut *atomic.Bool) *service {
	t.Helper()
	handler, way := s.Config.Handler, *s
	way.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cut.Load() {
			handler.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(way.Close)
	return &way
}

func TestRemoteSupplyGetsSameKeysAfterLostReply(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		var cut atomic.Bool
		s := behindACut(t, serve(t, l.Ledger, nil), &cut)
		remote := supply(t, s.address(mine))
		cut.Store(true)
		for range 3 { // each attempt gets the same keys
			if b, err := remote.Take(t.Context(), 100); err == nil || errors.Is(err, kgs.ErrEmpty) {
				t.Fatalf("Take = %v, error %v, want an error of the connection", b, err)
			}
		}
		cut.Store(false)
		b, err := remote.Take(t.Context(), 10)
		if err != nil || len(b.Codes) != 100 || b.Source != kgs.SourceKGS {
			t.Fatalf("Take = %v, error %v, want the 100 keys of the first request", b, err)
		}
		cut.Store(true)
		if err := remote.Settle(t.Context(), b, b.Codes[50:], nil); err == nil {
			t.Error("Settle succeeded although its reply was lost")
		}
		cut.Store(false)
		if err := remote.Settle(t.Context(), b, b.Codes[50:], nil); err != nil {
			t.Error(err)
		}
		after, err := remote.Take(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.Codes[50:], after.Codes); diff != "" || reserved(t, l) != 100 {
			t.Errorf("%d numbers are reserved, want 100; keys (-returned +next):\n%s", reserved(t, l), diff)
		}
	})
}

func TestRemoteSupplyCloseReturnsKeysOfLostReply(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		var cut atomic.Bool
		s := behindACut(t, serve(t, l.Ledger, nil), &cut)
		remote := supply(t, s.address(mine))
		cut.Store(true)
		if b, err := remote.Take(t.Context(), 100); err == nil {
			t.Fatalf("Take succeeded although its reply was lost: %v", b)
		}
		cut.Store(false)
		if err := remote.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.take("next", 100)
		if n := reserved(t, l); n != 100 {
			t.Errorf("%d numbers are reserved, want 100", n)
		}
	})
}

// TestRemoteSupplyCloseWaitsForRateLimit closes a supply whose client has used up its allowance. Close must wait
// for the delay that the service requests.
func TestRemoteSupplyCloseWaitsForRateLimit(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	leaveTen(t, l)
	var cut atomic.Bool
	s := behindACut(t, serve(t, l.Ledger, func(c *Config) { c.Rate = 1 }), &cut)
	remote := supply(t, s.address(mine))
	cut.Store(true)
	if b, err := remote.Take(t.Context(), MaxCount); err == nil {
		t.Fatalf("Take succeeded although its reply was lost: %v", b)
	}
	cut.Store(false)
	if err := remote.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var open int
	err := l.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM kgs_leases WHERE state = 'open'`).Scan(&open)
	if err != nil || open != 0 {
		t.Errorf("%d leases are open after Close, want 0; error %v", open, err)
	}
}

func TestSettleOfExpiredLeaseSucceeds(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := serve(t, l.Ledger, nil)
		remote := supply(t, s.address(mine))
		b, err := remote.Take(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		// Other keys are leased by a request whose reply was lost.
		remote.unanswered = []string{"lost"}
		s.take("lost", 10)
		l.Exec(t, `UPDATE kgs_leases SET expires_at = 0`)
		if _, err := l.ExpireLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := remote.Settle(t.Context(), b, b.Codes, nil); err != nil {
			t.Errorf("Settle of an expired lease: %v", err)
		}
		after, err := remote.Take(t.Context(), 10)
		if err != nil || len(after.Codes) != 10 || after.Codes[0] == b.Codes[0] || reserved(t, l) != 30 {
			t.Errorf("Take after the expiry = %v, error %v, want 10 new keys", after, err)
		}
	})
}

// An HTTP/2 connection no longer transports data, but neither end closes the connection. RemoteSupply must open another
// connection within a few seconds.
func TestRemoteSupplyReplacesDeadConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	secure := httptest.NewUnstartedServer(s.Config.Handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	proxy := kgstest.NewCuttingProxy(t, secure.Listener.Addr().String())
	remote := supply(t, "https://one:"+mine+"@"+proxy.Listener.Addr().String())
	transport := remote.http.Transport.(*http.Transport)
	transport.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := remote.Take(ctx, 10)
		return err
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	begin, failures := time.Now(), 0
	for err := take(); err != nil; err = take() {
		if failures++; failures == 5 {
			t.Fatalf("after %v, Take still fails: %v", time.Since(begin), err)
		}
	}
	if failures == 0 {
		t.Error("the first Take succeeds, so its connection is not frozen")
	}
	if transport.Proxy != nil {
		t.Error("the token could go to a proxy")
	}
}

// A faulty or foreign service may answer with strings that cannot be codes.
func TestRemoteSupplyRefusesInvalidCodes(t *testing.T) {
	t.Parallel()
	answers := [][]string{nil} // for example the empty body of another service
	for _, code := range []string{"", "ab", "../x", "a/b", "a.b", "%41", " ", "ab\r\nX: y", strings.Repeat("a", 33)} {
		answers = append(answers, []string{"abc123", code})
	}
	for _, codes := range answers {
		var requests []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request kgsv1.TakeKeysRequest
			if body, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(body, &request) != nil {
				t.Errorf("the request %q is malformed: %v", body, err)
			}
			requests = append(requests, request.GetRequestId())
			w.Header().Set("Content-Type", "application/proto")
			answer, err := proto.Marshal(&kgsv1.TakeKeysResponse{LeaseId: 1, Codes: codes})
			if err == nil {
				_, err = w.Write(answer)
			}
			if err != nil {
				t.Error(err)
			}
		}))
		s := supply(t, strings.Replace(srv.URL, "//", "//one:"+mine+"@", 1))
		for range 2 {
			if b, err := s.Take(t.Context(), 2); !errors.Is(err, errInvalidAnswer) {
				t.Errorf("an answer with %q gives the batch %+v and the error %v", codes, b, err)
			}
		}
		if len(slices.Compact(requests)) != 1 {
			t.Errorf("the supply sent the requests %q, want one that it repeats", requests)
		}
		srv.Close()
	}
}

func TestRemoteSupplyConvertsServiceErrors(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	leaveTen(t, l)
	s := serve(t, l.Ledger, func(c *Config) { c.Rate = 10 })
	remote := supply(t, s.address(mine))
	if b, err := remote.Take(t.Context(), MaxCount); err != nil || len(b.Codes) != 10 {
		t.Fatalf("Take = %v, error %v, want the last 10 keys", b, err)
	}
	if b, err := remote.Take(t.Context(), 1000); !errors.Is(err, kgs.ErrEmpty) {
		t.Errorf("Take above the rate = %v, error %v, want ErrEmpty", b, err)
	}
	l.Exec(t, `UPDATE kgs_spaces SET next = size`)
	if b, err := supply(t, s.address(yours)).Take(t.Context(), 1); !errors.Is(err, kgs.ErrExhausted) || errors.Is(err, kgs.ErrEmpty) {
		t.Errorf("Take after the last key = %v, error %v, want ErrExhausted", b, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := remote.Take(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Take with a cancelled context: %v, want Canceled", err)
	}
	const wrong = "a-token-that-is-wrong"
	stranger := supply(t, s.address(wrong))
	_, err := stranger.Take(t.Context(), 1)
	if err == nil || errors.Is(err, kgs.ErrEmpty) || strings.Contains(err.Error(), wrong) {
		t.Errorf("Take with a wrong token: %v, want an error without the token", err)
	}
	s.Close()
	_, err = stranger.Take(t.Context(), 1)
	if err == nil || errors.Is(err, kgs.ErrEmpty) || strings.Contains(err.Error(), wrong) {
		t.Errorf("Take without a server: %v, want an error without the token", err)
	}
	for _, address := range []string{"http://host", "http://client@host", "http://client:@host", "http://u:" + wrong + "@h:port"} {
		if _, err := NewRemoteSupply(address); err == nil || strings.Contains(err.Error(), wrong) {
			t.Errorf("NewRemoteSupply(%q): %v, want an error without the token", address, err)
		}
	}
}
