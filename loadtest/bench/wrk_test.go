package bench

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const rightTally = `{"requests":4000,"micros":2000000,"connect":0,"read":0,"write":0,"timeout":0,"status":0}`

func TestParseTally(t *testing.T) {
	t.Parallel()
	got, err := parseTally([]byte("Running 2s test\n  4000 requests in 2.00s\n\n" + rightTally + "\n"))
	if err != nil || got.perSecond() != 2000 {
		t.Errorf("%v a second, error %v; want 2000", got.perSecond(), err)
	}
	wrong := map[string]string{
		"nothing":     "",
		"no tally":    "Running 2s test\n  4000 requests in 2.00s\n",
		"no requests": strings.Replace(rightTally, "4000", "0", 1),
		"no time":     strings.Replace(rightTally, "2000000", "0", 1),
	}
	for _, failure := range []string{"connect", "read", "write", "timeout", "status"} {
		wrong[failure] = strings.Replace(rightTally, `"`+failure+`":0`, `"`+failure+`":1`, 1)
	}
	for name, out := range wrong {
		if got, err := parseTally([]byte(out)); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
}

// Only the very answer that is wanted is one.
func TestExchange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer http.HandlerFunc
		right  bool
	}{
		"right":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }, true},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target+"/", http.StatusFound) }, false},
		"for ever":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusMovedPermanently) }, false},
		"a page":    {func(http.ResponseWriter, *http.Request) {}, false},
		"error":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false},
	}
	for name, tt := range tests {
		server := httptest.NewServer(tt.answer)
		if err := visit(server.URL, "alias").try(t.Context()); (err == nil) != tt.right {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}

// A server that stores less than it acknowledges, or answers what is no redirect, has no
// figure: the check of the subject says so.
func TestCheckFailsTheFigure(t *testing.T) {
	t.Parallel()
	bare := httptest.NewServer(bareHandler())
	defer bare.Close()
	r := testRun(t, "")
	missing := errors.New("rows are missing")
	load := wrk{url: visit(bare.URL, "any").url, script: "get"}
	if figure, err := r.wrk("bare", load).measure(t.Context()); err != nil || figure <= 0 {
		t.Errorf("%v, %v; want a figure", figure, err)
	}
	load.check = func(_ context.Context, answers int64) error {
		if answers <= 0 {
			t.Error("the check was told of no answers")
		}
		return missing
	}
	if figure, err := r.wrk("bare", load).measure(t.Context()); !errors.Is(err, missing) {
		t.Errorf("%v, %v; want the error of the check", figure, err)
	}
	load = wrk{url: creation(bare.URL).url, script: "post", args: []string{"no JSON"}}
	if figure, err := r.wrk("bare", load).measure(t.Context()); err == nil {
		t.Errorf("%v creations a second, all of them refused", figure)
	}
}
