package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

const firstKey = `"0123456789abcdef"`

func TestRepeatedRequestWithIdempotencyKeyGetsSameLink(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	o, other := s.owner(t, "docs", everyScope), s.owner(t, "other", everyScope)
	const body = `{"url":"https://go.dev","title":"x"}`
	send := func(o owner, body, key string) response {
		return o.send(t, http.MethodPost, "/shorten", body, "Idempotency-Key", key)
	}
	first := send(o, body, firstKey)
	if first.status != http.StatusCreated || first.header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("the first request: status %d (want 201), %v", first.status, first.header)
	}
	for range 2 {
		again := send(o, body, firstKey)
		if again.status != http.StatusCreated || again.body != first.body || again.header.Get("Idempotency-Replayed") != "true" ||
			again.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("a repetition: status %d, %v %s, want a replayed answer with %s",
				again.status, again.header, again.body, first.body)
		}
	}
	if r := send(o, `{"url":"https://go.dev","title":"y"}`, firstKey); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "key-reused") {
		t.Errorf("another payload: status %d (want 422), %s", r.status, r.body)
	}
	if r := send(other, body, firstKey); r.status != http.StatusCreated || r.body == first.body {
		t.Errorf("the key of another token: status %d (want 201), %s", r.status, r.body)
	}
	// A refused request does not use up its idempotency key.
	if r := send(o, `{"url":"ftp://go.dev"}`, `"0123456789abcdef-2"`); r.status != http.StatusUnprocessableEntity {
		t.Errorf("an invalid request: status %d, want 422", r.status)
	}
	if r := send(o, body, `"0123456789abcdef-2"`); r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the key of a refused request: status %d (want 201), %v", r.status, r.header)
	}
	taken := send(o, `{"url":"https://go.dev","alias":"mine"}`, `"0123456789abcdef-3"`)
	if r := send(o, `{"url":"https://go.dev","alias":"mine"}`, `"0123456789abcdef-3"`); r.status != http.StatusCreated || r.body != taken.body {
		t.Errorf("a repetition with an alias: status %d (want 201), %s", r.status, r.body)
	}
	for _, key := range []string{`0123456789abcdef`, `"0123456789abcde"`, `"` + strings.Repeat("x", 65) + `"`, `"0123456789\abcdef"`, `"0123456789ä012345"`, ``} {
		if r := send(o, body, key); r.status != http.StatusBadRequest {
			t.Errorf("the key %s: status %d (want 400), %s", key, r.status, r.body)
		}
	}
	if r := s.create(t, `{"url":"https://go.dev"}`, "Idempotency-Key", firstKey); r.status != http.StatusUnauthorized {
		t.Errorf("a key without a token: status %d, want 401", r.status)
	}
}

func TestConcurrentRequestsWithOneIdempotencyKeyCreateOneLink(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	bodies := make([]string, 50)
	var requests sync.WaitGroup
	for i := range bodies {
		requests.Go(func() {
			bodies[i] = o.send(t, http.MethodPost, "/shorten", `{"url":"https://go.dev"}`, "Idempotency-Key", firstKey).body
		})
	}
	requests.Wait()
	if different := slices.Compact(slices.Sorted(slices.Values(bodies))); len(different) != 1 {
		t.Errorf("%d requests got %d different answers: %v", len(bodies), len(different), different)
	}
	if codes, _ := o.list(t, ""); len(codes) != 1 {
		t.Errorf("the requests created the links %v, want one link", codes)
	}
}

// bulk sends lines and returns the lines of the answer.
func (o owner) bulk(t *testing.T, body string) (answers []bulkAnswer) {
	t.Helper()
	r := o.do(t, http.MethodPost, "/api/links", body, "Content-Type", media.NDJSON, "Authorization", o.authorization)
	if r.status != http.StatusOK {
		t.Fatalf("status %d (want 200): %s", r.status, r.body)
	}
	for line := range strings.Lines(r.body) {
		var a bulkAnswer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	return answers
}

// inTime returns the answers of send. It repeats send if the service ran out of time for a line.
func inTime(send func() []bulkAnswer) []bulkAnswer {
	for start := time.Now(); ; {
		began := time.Now()
		answers := send()
		late := slices.ContainsFunc(answers, func(a bulkAnswer) bool {
			return a.Status == http.StatusServiceUnavailable || a.Status == http.StatusConflict && len(a.Problem.Suggestions) == 0
		})
		if !late || time.Since(began) < slowAnswer || time.Since(start) > patience {
			return answers
		}
	}
}

func TestBulkRequestGetsOneAnswerPerLine(t *testing.T) {
	t.Parallel()
	body := `{"ref":"a","url":"https://one.example/","alias":"one","title":"One"}

{"ref":"b","url":"ftp://two.example/"}
{"url":"https://three.example/"}
nonsense
{"ref":"a","url":"https://one.example/","alias":"one","title":"One"}
{"ref":"a","url":"https://other.example/"}
{"ref":"","url":"https://one.example/"}
{"url":"https://two.example/","alias":"one"}
null`
	const lines = 9
	both := inTime(func() []bulkAnswer {
		o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
		return append(o.bulk(t, body), o.bulk(t, body)...)
	})
	if len(both) != 2*lines {
		t.Fatalf("the two requests have %d answers, want %d", len(both), 2*lines)
	}
	for round, wantFirst := range []int{201, 200} {
		var got []string
		answers := both[round*lines:][:lines]
		for _, a := range answers {
			kind := ""
			if a.Problem != nil {
				kind = strings.TrimPrefix(a.Problem.Type, reply.TypePrefix)
			}
			got = append(got, fmt.Sprint(a.Line, a.Ref, " ", a.Status, kind))
		}
		want := []string{
			fmt.Sprint("1a ", wantFirst), "3b 422invalid-field", "4 201", "5 400malformed", "6a 200", "7a 422key-reused", "8 422invalid-field",
			"9 409alias-taken", "10 400malformed",
		}
		if !slices.Equal(got, want) {
			t.Errorf("round %d: the answers are %q, want %q", round+1, got, want)
		}
		if p := answers[7].Problem; len(p.Suggestions) != 3 {
			t.Errorf("a taken alias has the suggestions %q", p.Suggestions)
		}
		if l := answers[0].Link; l == nil || l.Code != "one" || l.Title != "One" || l.Owner != "docs" {
			t.Errorf("the link of the first line is %+v", l)
		}
	}
}

func TestInvalidBulkRequestIsRefusedAsWhole(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	o, reader := s.owner(t, "docs", everyScope), s.owner(t, "reader", token.ScopeRead)
	line := `{"url":"https://go.dev"}` + "\n"
	for name, test := range map[string]struct {
		from   owner
		body   string
		media  string
		status int
	}{
		"too many lines":         {o, strings.Repeat(line, maxBulkLines+1), media.NDJSON, http.StatusRequestEntityTooLarge},
		"too many blank bytes":   {o, strings.Repeat(" ", maxBulkBody+1), media.NDJSON, http.StatusRequestEntityTooLarge},
		"unsupported charset":    {o, line, media.NDJSON + "; charset=utf-16", http.StatusUnsupportedMediaType},
		"too many bytes":         {o, strings.Repeat(line+strings.Repeat(" ", 1<<20)+"\n", 17), media.NDJSON, http.StatusRequestEntityTooLarge},
		"unsupported media type": {o, line, media.JSON, http.StatusUnsupportedMediaType},
		"missing scope":          {reader, line, media.NDJSON, http.StatusForbidden},
		"no lines":               {o, "\n", media.NDJSON, http.StatusOK},
	} {
		r := s.do(t, http.MethodPost, "/api/links", test.body, "Content-Type", test.media, "Authorization", test.from.authorization)
		if r.status != test.status {
			t.Errorf("%s: status %d, want %d: %.200s", name, r.status, test.status, r.body)
		}
	}
	r := s.do(t, http.MethodPost, "/api/links", line, "Content-Type", media.NDJSON, "Authorization", o.authorization,
		"Idempotency-Key", `"0123456789abcdef"`)
	s.wantProblem(t, r, http.StatusBadRequest, "malformed")
	if codes, _ := o.list(t, ""); len(codes) > 0 {
		t.Errorf("refused requests created the links %v", codes)
	}
}

// A long line is refused, because a parsed line can take twenty times as much memory as its text.
func TestLongLinesOfABulkRequestAreRefused(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	fits := `{"url":"https://go.dev/","title":"` + strings.Repeat(" ", maxBody-37) + `x"}`
	body := fits + "\n" + fits + " \n" + `{"url":"https://go.dev/","tags":[` + strings.Repeat(`"",`, 100_000) + `""]}` + "\n" +
		`{"ref":"\u0000","url":"https://go.dev/"}` + "\n" + `{"url":"https://go.dev/"}`
	answers := inTime(func() []bulkAnswer { return o.bulk(t, body) })
	var got []string
	for _, a := range answers {
		got = append(got, fmt.Sprint(a.Line, " ", a.Status))
	}
	if want := []string{"1 201", "2 413", "3 413", "4 422", "5 201"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	const buffer = maxBody + 2
	for _, size := range []int{buffer - 1, buffer, buffer + 1, 2 * buffer, 3 * buffer} { // the last line has no line break
		answers := o.bulk(t, fits+"\n"+strings.Repeat("x", size))
		if len(answers) != 2 || answers[1].Line != 2 || answers[1].Status < 400 {
			t.Errorf("a last line of %d bytes: the answers are %+v, want two, the second one an error", size, answers)
		}
	}
}

// A token can have only one bulk request in progress. So slow bulk requests of a few tokens do not prevent bulk requests
// with other tokens.
func TestConcurrentBulkRequestsOfOneTokenAreLimited(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	other := s.owner(t, "other", everyScope)
	send := func(o owner) response {
		return s.once(t, http.MethodPost, "/api/links", `{"url":"https://go.dev/"}`, "Content-Type", media.NDJSON, "Authorization", o.authorization)
	}
	const life = 9 * time.Second // the service ends a request whose body has not arrived after 10 s
	for round := 0; ; round++ {
		var slow owner
		var releases []func()
		start := time.Now()
		for i := range maxBulks - 1 {
			slow = s.owner(t, fmt.Sprint("slow", round, "-", i), everyScope)
			releases = append(releases, slow.holdBulk(t))
		}
		admitted, refused := send(other), send(slow)
		late := time.Since(start) > life
		for _, release := range releases {
			release()
		}
		if late && round < 10 {
			continue
		}
		if refused.status != http.StatusServiceUnavailable || refused.header.Get("Retry-After") != "1" || !strings.Contains(refused.body, "Too many requests of this kind are in progress") {
			t.Errorf("a further request of the token has the status %d, want 503: %s", refused.status, refused.body)
		}
		if admitted.status != http.StatusOK {
			t.Errorf("the request of another token has the status %d, want 200", admitted.status)
		}
		return
	}
}

// holdBulk begins a bulk request whose body is slow. It returns after the server has accepted the request. release ends
// the request.
func (o owner) holdBulk(t *testing.T) (release func()) {
	t.Helper()
	// The client sends the body only when the server begins to read it. Then the server has accepted the request.
	sender := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	t.Cleanup(sender.CloseIdleConnections)
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/api/links", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media.NDJSON)
	r.Header.Set("Authorization", o.authorization)
	r.Header.Set("Expect", "100-continue")
	var request sync.WaitGroup
	request.Go(func() {
		if response, err := sender.Do(r); err == nil {
			response.Body.Close()
		}
	})
	release = func() {
		send.Close()
		request.Wait()
	}
	t.Cleanup(release)
	if _, err := io.WriteString(send, "\n"); err != nil {
		t.Fatal(err)
	}
	return release
}

// Each line counts as one creation against the limit of the token.
func TestBulkRequestLinesCountAgainstRateLimit(t *testing.T) {
	t.Parallel()
	s := newTokenSite(t, client.Limits{})
	_, authorization := s.issue(t, token.Token{Name: "slow", Scopes: everyScope, Rate: 1})
	created, start := 0, time.Now()
	slow := owner{s, authorization}
	for _, a := range slow.bulk(t, strings.Repeat(`{"url":"https://go.dev"}`+"\n", 40)) {
		switch {
		case a.Status == http.StatusCreated:
			created++
		case a.Status == http.StatusServiceUnavailable:
			created++ // the service ran out of time; the line counts against the limit
		case a.Status != http.StatusTooManyRequests || a.Problem.RetryAfter < 1:
			t.Errorf("line %d: %+v, want status 201, or 429 with retry_after", a.Line, a)
		}
	}
	if most := 10 + regained(start, 1); created < 10 || created > most {
		t.Errorf("%d lines created a link at a rate of 1/s with a burst of 10, want 10 to %d", created, most)
	}
	_, authorization = s.issue(t, token.Token{Name: "fast", Scopes: everyScope, Rate: 100})
	r := owner{s, authorization}.do(t, http.MethodPost, "/api/links", `{"url":"https://go.dev"}`, "Content-Type", media.NDJSON, "Authorization", authorization)
	wantHeader(t, r, "RateLimit-Policy", `"token";q=1000;w=10`)
	wantHeader(t, r, "RateLimit", `"token";r=1000;t=1`)
}
