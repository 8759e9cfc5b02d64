package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/storetest"
	"keypool/shortener/token"
	"keypool/shortener/visits"
	"keypool/web/client"
	"keypool/web/internal/media"
)

const (
	browserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	robotAgent   = "Mozilla/5.0 (compatible; Examplebot/1.0; +https://example.com/bot)"
)

// visitSite is a listener that counts visits with details.
type visitSite struct {
	*tokenSite
	visits *Visits
}

func newVisitSite(t *testing.T, change func(*PublicConfig)) visitSite {
	t.Helper()
	v := newVisits(t)
	s := changedTokenSite(t, func(c *PublicConfig, _ *token.Registry) {
		c.Visits = v
		if change != nil {
			change(c)
		}
	})
	return visitSite{s, v}
}

// newVisits returns Visits that count visits with details in an empty database.
func newVisits(t *testing.T) *Visits {
	t.Helper()
	db := storetest.SQLite(t)
	store := visits.SQLite(db.Read, db.Write)
	return &Visits{Store: store, Counter: visits.New(visits.Config{Store: store, Detail: true}), CountryHeader: "Cf-Ipcountry"}
}

// visit follows a link and returns the status.
func (s *site) visit(t *testing.T, method, path, agent string, headers ...string) int {
	t.Helper()
	return s.do(t, method, path, "", append(headers, "User-Agent", agent)...).status
}

func (s visitSite) flush(t *testing.T) {
	t.Helper()
	if err := s.visits.Counter.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// read returns an answer about visits, which must have status 200.
func read[T any](t *testing.T, o owner, path string) T {
	t.Helper()
	r := o.send(t, http.MethodGet, path, "")
	if r.status != http.StatusOK {
		t.Fatalf("GET %s: status %d (want 200), %s", path, r.status, r.body)
	}
	return decode[T](t, r.body)
}

// Only a GET request that is answered with a redirect is a visit.
func TestOnlyGETRequestsAnsweredWithRedirectAreVisits(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	o := s.owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/","forward":"query+path"}`)
	for _, request := range []struct {
		method, path, agent string
		status              int
		headers             []string
	}{
		{http.MethodGet, "/" + l.Code, browserAgent, 302, nil},
		{http.MethodGet, "/" + l.Code + "/more?x=1", browserAgent, 302, nil},
		{http.MethodGet, "/" + l.Code, robotAgent, 302, nil},
		{http.MethodGet, "/" + l.Code, "", 302, nil},
		{http.MethodGet, "/" + l.Code, browserAgent, 302, []string{"Sec-Purpose", "prefetch;prerender"}},
		{http.MethodGet, "/" + l.Code, browserAgent, 302, []string{"Purpose", "prefetch"}},
		{http.MethodHead, "/" + l.Code, browserAgent, 302, nil},
		{http.MethodGet, "/" + l.Code + "+", browserAgent, 200, nil},
		{http.MethodGet, "/" + l.Code + ".svg", browserAgent, 200, nil},
		{http.MethodGet, "/unknown", browserAgent, 404, nil},
	} {
		if status := s.visit(t, request.method, request.path, request.agent, request.headers...); status != request.status {
			t.Errorf("%s %s: status %d, want %d", request.method, request.path, status, request.status)
		}
	}
	o.want(t, http.StatusNoContent, http.MethodDelete, "/api/links/"+l.Code, "")
	s.flush(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	got := read[seriesAnswer](t, o, "/api/links/"+l.Code+"/visits")
	want := seriesAnswer{Code: l.Code, Total: counts{2, 4}, Series: []pointAnswer{{today, counts{2, 4}}}, AsOf: got.AsOf}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seriesAnswer{}, pointAnswer{})); diff != "" {
		t.Errorf("the visits of a deleted link (-want +got):\n%s", diff)
	}
	if age := time.Since(got.AsOf); age < 0 || age > time.Minute {
		t.Errorf("as_of is %v, want a time within the last minute", got.AsOf)
	}
	if got := read[seriesAnswer](t, o, "/api/links/"+l.Code+"/visits?by=total&class=human"); got.Total != (counts{2, 0}) || len(got.Series) != 0 {
		t.Errorf("the visits of the class human are %+v, want only the total of 2", got)
	}
	if got := read[seriesAnswer](t, o, "/api/links/"+l.Code+"/visits?by=hour&from=2100-01-01T00:00:00%2B01:00"); got.Total != (counts{}) {
		t.Errorf("the visits from the year 2100 on are %+v, want none", got)
	}
	top := read[topAnswer](t, o, "/api/visits/top")
	if diff := cmp.Diff([]codeAnswer{{l.Code, counts{2, 4}}}, top.Items, cmp.AllowUnexported(codeAnswer{})); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
}

// An answer stays in memory until a slow client has received it. Therefore an answer with visits waits for a slot, as a list
// does.
func TestAnswersWithVisitsWaitForSlots(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	created, authorization := s.issue(t, token.Token{Name: "docs", Scopes: everyScope})
	o := owner{s.tokenSite, authorization}
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	paths := []string{"/api/links/" + l.Code + "/visits", "/api/links/" + l.Code + "/visits/referrers", "/api/visits/top"}
	var ends []func()
	for range 4 { // the slots of one token
		end, err := s.service.BeginAnswer(t.Context(), service.Actor{Token: created.ID})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	for _, path := range paths {
		s.wantProblem(t, s.once(t, http.MethodGet, path, "", "Authorization", authorization), http.StatusServiceUnavailable, "unavailable")
	}
	for _, end := range ends {
		end()
	}
	for _, path := range paths {
		if r := o.send(t, http.MethodGet, path, ""); r.status != http.StatusOK {
			t.Errorf("GET %s: status %d, %s", path, r.status, r.body)
		}
	}
}

func TestVisitsAreCountedByFacet(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		s := newVisitSite(t, func(c *PublicConfig) {
			if trusted {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		o := s.owner(t, "docs", everyScope)
		l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
		for _, referrer := range []string{"https://news.example/secret?q=1", "https://news.example/", "https://blog.example/"} {
			s.visit(t, http.MethodGet, "/"+l.Code, browserAgent, "Referer", referrer, "CF-IPCountry", "de")
		}
		s.flush(t)
		countries := []valueAnswer{}
		if trusted {
			countries = []valueAnswer{{"DE", counts{3, 0}}}
		}
		for path, want := range map[string]facetAnswer{
			"referrers":         {Items: []valueAnswer{{"news.example", counts{2, 0}}, {"blog.example", counts{1, 0}}}},
			"referrers?limit=1": {Items: []valueAnswer{{"news.example", counts{2, 0}}}, Other: 1},
			"devices":           {Items: []valueAnswer{{"desktop", counts{3, 0}}}},
			"countries":         {Items: countries},
		} {
			got := read[facetAnswer](t, o, "/api/links/"+l.Code+"/visits/"+path)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(valueAnswer{})); diff != "" {
				t.Errorf("%s with a trusted proxy: %v (-want +got):\n%s", path, trusted, diff)
			}
		}
	}
}

func TestVisitsAreSentAsCSV(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	o := s.owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	s.visit(t, http.MethodGet, "/"+l.Code, browserAgent, "Referer", "https://news.example/")
	s.flush(t)
	path := "/api/links/" + l.Code + "/visits"
	for path, want := range map[string]string{
		path:                              "at,human,bot\n" + time.Now().UTC().Format("2006-01-02") + "T00:00:00Z,1,0\n",
		path + "?by=total":                "at,human,bot\n,1,0\n",
		path + "/referrers":               "value,human,bot\nnews.example,1,0\n",
		"/api/visits/top":                 "code,human,bot\n" + l.Code + ",1,0\n",
		"/api/visits/top?limit=1000":      "code,human,bot\n" + l.Code + ",1,0\n",
		path + "/countries?limit=1":       "value,human,bot\n",
		path + "/devices?limit=1":         "value,human,bot\ndesktop,1,0\n",
		path + "?class=bot":               "at,human,bot\n",
		path + "?to=2001-01-01T00:00:00Z": "at,human,bot\n",
	} {
		r := o.send(t, http.MethodGet, path, "", "Accept", media.CSV)
		if r.status != http.StatusOK || r.body != want || r.header.Get("Content-Type") != media.CSV {
			t.Errorf("GET %s: status %d, %s\n%swant\n%s", path, r.status, r.header.Get("Content-Type"), r.body, want)
		}
	}
}

// A token reads only the visits of its own links, unless it has the scope admin.
func TestTokenReadsOnlyVisitsOfOwnLinks(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	o, other, admin := s.owner(t, "docs", everyScope), s.owner(t, "other", everyScope), s.owner(t, "admin", token.ScopeAdmin)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	anonymous := s.shorten(t, `{"url":"https://two.example/"}`)
	for _, code := range []string{l.Code, anonymous.Code, anonymous.Code} {
		s.visit(t, http.MethodGet, "/"+code, browserAgent)
	}
	s.flush(t)
	for _, suffix := range []string{"", "/referrers", "/countries", "/devices"} {
		s.wantProblem(t, other.send(t, http.MethodGet, "/api/links/"+l.Code+"/visits"+suffix, ""), http.StatusNotFound, "not-found")
		s.wantProblem(t, o.send(t, http.MethodGet, "/api/links/"+anonymous.Code+"/visits"+suffix, ""), http.StatusNotFound, "not-found")
	}
	if got := read[seriesAnswer](t, admin, "/api/links/"+anonymous.Code+"/visits"); got.Total != (counts{2, 0}) {
		t.Errorf("the total that the scope admin reads is %+v, want 2 visits of people", got.Total)
	}
	for _, test := range []struct {
		owner owner
		want  []codeAnswer
	}{
		{o, []codeAnswer{{l.Code, counts{1, 0}}}},
		{other, []codeAnswer{}},
		{admin, []codeAnswer{{anonymous.Code, counts{2, 0}}, {l.Code, counts{1, 0}}}},
	} {
		got := read[topAnswer](t, test.owner, "/api/visits/top")
		if diff := cmp.Diff(test.want, got.Items, cmp.AllowUnexported(codeAnswer{})); diff != "" {
			t.Errorf("top (-want +got):\n%s", diff)
		}
	}
	s.wantProblem(t, s.do(t, http.MethodGet, "/api/visits/top", ""), http.StatusUnauthorized, "unauthorized")
	creator := s.owner(t, "creator", token.ScopeCreate|token.ScopeEdit)
	s.wantProblem(t, creator.send(t, http.MethodGet, "/api/links/"+l.Code+"/visits", ""), http.StatusForbidden, "forbidden")
}

func TestBadParametersOfVisitsAreRefused(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	o := s.owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	path := "/api/links/" + l.Code + "/visits"
	for _, query := range []string{
		path + "?by=week", path + "?by=", path + "?class=robot", path + "?from=2026-01-01", path + "?from=", path + "?limit=1",
		path + "?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", path + "?by=day&by=hour", path + "?from=2026-01-01T00:00:00+01:00",
		path + "/referrers?by=day", path + "/referrers?limit=0", path + "/devices?limit=1001", path + "/countries?to=now",
		"/api/visits/top?limit=x", "/api/visits/top?class=human", "/api/visits/top?from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
	} {
		s.wantProblem(t, o.send(t, http.MethodGet, query, ""), http.StatusBadRequest, "malformed")
	}
}

func TestVisitsAPIAnswers404IfCountingIsOff(t *testing.T) {
	t.Parallel()
	o := newTokenSite(t, client.Limits{}).owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	for _, path := range []string{"/api/links/" + l.Code + "/visits", "/api/links/" + l.Code + "/visits/devices", "/api/visits/top"} {
		o.wantProblem(t, o.send(t, http.MethodGet, path, ""), http.StatusNotFound, "visits-off")
	}
}

// While the database of the visits does not answer, redirects work, and requests for visits get a
// 503.
func TestVisitQueriesAnswer503WhileDatabaseIsDown(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	if err := errors.Join(db.Read.Close(), db.Write.Close()); err != nil {
		t.Fatal(err)
	}
	s := newVisitSite(t, func(c *PublicConfig) { c.Visits.Store = visits.SQLite(db.Read, db.Write) })
	o := s.owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	if status := s.visit(t, http.MethodGet, "/"+l.Code, browserAgent); status != http.StatusFound {
		t.Errorf("status %d, want 302", status)
	}
	r := o.once(t, http.MethodGet, "/api/links/"+l.Code+"/visits", "", "Authorization", o.authorization)
	o.wantProblem(t, r, http.StatusServiceUnavailable, "unavailable")
	wantHeader(t, r, "Retry-After", "1")
}

func TestRedirectAgeSetsMaxAgeOfRedirects(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{0: "private, max-age=0", time.Hour: "private, max-age=3600"} {
		s := newSite(t, func(c *PublicConfig) { c.RedirectAge = &age })
		link := s.shorten(t, `{"url":"https://one.example/"}`)
		wantHeader(t, s.do(t, http.MethodGet, "/"+link.Code, ""), "Cache-Control", want)
	}
}

// benchVisit is benchRedirect on a handler that counts visits.
func benchVisit(tb testing.TB, detail bool) func() {
	tb.Helper()
	h, service := benchHandler(tb, &Visits{Counter: visits.New(visits.Config{Detail: detail})})
	link, _, err := service.Create(context.Background(), shortener.Request{URL: "https://example.com/"})
	if err != nil {
		tb.Fatal(err)
	}
	r := benchGet(link.Code)
	r.Header = http.Header{"User-Agent": {browserAgent}, "Referer": {"https://news.example/" + strings.Repeat("x", 50)}}
	return benchRequest(tb, h, r, "", http.StatusFound)
}

// BenchmarkVisit and BenchmarkVisitDetail measure a redirect that is counted.
func BenchmarkVisit(b *testing.B)       { bench(b, benchVisit(b, false)) }
func BenchmarkVisitDetail(b *testing.B) { bench(b, benchVisit(b, true)) }

// The pages for links show the visits that the API shows, including those of imported
// links.
func TestUIShowsVisits(t *testing.T) {
	t.Parallel()
	v := newVisits(t)
	s := newUISite(t, "", func(c *PublicConfig) { c.Visits = v })
	l := s.owner(t, "docs", everyScope).want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	for range 3 {
		s.visit(t, http.MethodGet, "/"+l.Code, browserAgent)
	}
	s.visit(t, http.MethodGet, "/"+l.Code, robotAgent)
	old := time.Now().Add(-40*24*time.Hour).Unix() / 3600 // before the days of the chart
	past := visits.Part{Writer: "import", Sequence: 1, Rows: []visits.Row{
		{Code: l.Code, Count: visits.Count{Human: 30, Bot: 50}}, // visits whose hour is not known
		{Code: l.Code, Hour: old, Count: visits.Count{Human: 10}},
	}}
	if err := errors.Join(v.Counter.FlushNow(t.Context()), v.Store.Register(t.Context(), past.Writer), v.Store.Apply(t.Context(), past)); err != nil {
		t.Fatal(err)
	}
	series, err := v.Daily(t.Context(), l.Code, 30)
	if err != nil || len(series.Days) != 30 || series.Days[29].Human != 3 || series.Days[29].Bot != 1 || series.Total.Human != 43 || series.Total.Bot != 51 {
		t.Errorf("series %+v, error %v", series, err)
	}
	short := &Visits{Store: v.Store, Counter: v.Counter, Keep: 48 * time.Hour} // the day before yesterday is not complete
	if series, err := short.Daily(t.Context(), l.Code, 30); err != nil || len(series.Days) != 2 || series.Days[1].Human != 3 || series.Total.Human != 43 {
		t.Errorf("with the counts of 48 hours: series %+v, error %v; want two days", series, err)
	}
	short.Keep = time.Nanosecond // not even today is complete
	if series, err := short.Daily(t.Context(), l.Code, 30); err != nil || len(series.Days) != 0 || series.Total.Human != 43 {
		t.Errorf("with the counts of a nanosecond: series %+v, error %v; want no day", series, err)
	}
	response, err := s.client.Get(s.admin + "/code/" + l.Code)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if want := "<b>43</b> by people, <b>51</b> by bots"; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("the page does not contain %q, error %v:\n%s", want, err, body)
	}
}

// The service of this test permits two queries of a token at a time. A third query for visits or for a list
// waits, and fails with 503 after a second. The same limit applies to the pages for people.
func TestVisitQueriesAndListsAnswer503IfTokenHasTwoQueriesRunning(t *testing.T) {
	t.Parallel()
	s := newVisitSite(t, nil)
	o := s.owner(t, "docs", everyScope)
	l := o.want(t, http.StatusCreated, http.MethodPost, "/shorten", `{"url":"https://one.example/"}`)
	tokens := s.registry.Valid()
	for range 2 {
		end, err := s.service.BeginRead(t.Context(), service.Actor{Token: tokens[0].ID})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(end)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	path := "/api/links/" + l.Code
	for _, path := range []string{path + "/visits", path + "/visits/devices", "/api/visits/top", "/api/links"} {
		wg.Go(func() {
			r := o.once(t, http.MethodGet, path, "", "Authorization", o.authorization)
			if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "1" {
				t.Errorf("%s: status %d, want 503", path, r.status)
			}
		})
	}
}
