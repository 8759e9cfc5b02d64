package ui

import (
	"bytes"
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
	"keypool/shortener/token"
	"keypool/web/internal/shell"
)

// series returns 30 days, with visits on the first, the second and the last day.
func series() Series {
	s := Series{AsOf: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Total: Day{Human: 1813, Bot: 450}}
	for day := range chartDays {
		s.Days = append(s.Days, Day{At: time.Date(2026, 11, 1+day, 0, 0, 0, 0, time.UTC)})
	}
	s.Days[0].Human, s.Days[1].Bot, s.Days[29] = 1, 50, Day{At: s.Days[29].At, Human: 600, Bot: 400}
	return s
}

// The height of a bar is proportional to the visits of its day. The day with the most visits has the full height. A number of
// visits above 0 is at least one unit high.
func TestChartBarsAreProportionalToVisits(t *testing.T) {
	t.Parallel()
	c := draw(series())
	if c.Human != 601 || c.Bot != 450 || c.Top != 1000 || len(c.Bars) != chartDays || c.Width() != 30*20-4 {
		t.Errorf("the chart is %+v", c)
	}
	for i, want := range map[int]bar{
		0:  {X: 0, Width: 16, HumanY: 119, HumanHeight: 1, BotY: 119},
		1:  {X: 20, Width: 16, HumanY: 120, BotY: 114, BotHeight: 6},
		2:  {X: 40, Width: 16, HumanY: 120, BotY: 120},
		29: {X: 580, Width: 16, HumanY: 48, HumanHeight: 72, BotY: 0, BotHeight: 48},
	} {
		got := c.Bars[i]
		if got.Day = (Day{}); got != want {
			t.Errorf("bar %d is %+v, want %+v", i, got, want)
		}
	}
}

// fakeVisits returns a fixed series or an error.
type fakeVisits struct {
	Series
	err error
}

func (f fakeVisits) Daily(context.Context, string, int) (Series, error) { return f.Series, f.err }

// renderVisits returns the section about visits, as a person with scopes sees it.
func renderVisits(t *testing.T, v Visits, scopes token.Scopes) string {
	t.Helper()
	links := service.New(service.Config{Store: sqlitestore.New(storetest.SQLite(t), storetest.Plain())})
	t.Cleanup(func() {
		if err := links.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	u := &UI{Config: Config{Service: links, Visits: v, Logger: slog.New(slog.DiscardHandler)}}
	x := &exchange{person: person{token: token.Token{Scopes: scopes}}, r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)}
	var out bytes.Buffer
	if err := parsePages().link.ExecuteTemplate(&out, "visits", u.chartOf(x, "abc")); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestVisitsSectionShowsChartOrExplainsItsAbsence(t *testing.T) {
	t.Parallel()
	idle := series()
	idle.Days[0], idle.Days[1], idle.Days[29] = Day{At: idle.Days[0].At}, Day{At: idle.Days[1].At}, Day{At: idle.Days[29].At}
	for name, tt := range map[string]struct {
		visits   Visits
		scopes   token.Scopes
		has, not []string
	}{
		"off":    {nil, token.ScopeRead, []string{"This server does not count visits."}, []string{"<svg"}},
		"failed": {fakeVisits{err: context.DeadlineExceeded}, token.ScopeRead, []string{"cannot be read at present"}, []string{"<svg", "deadline"}},
		"idle":   {fakeVisits{Series: idle}, token.ScopeRead, []string{"No visits in the last 30 days"}, []string{"<svg"}},
		"short":  {fakeVisits{Series: Series{Total: Day{Human: 7}}}, token.ScopeRead, []string{">Visits</h2>", "does not store the visits of a whole day", "7 by people"}, []string{"<svg"}},
		"hidden": {fakeVisits{Series: series()}, token.ScopeEdit | token.ScopeCreate, []string{"does not have the scope read"}, []string{"<svg", "601", "table"}},
		"visited": {fakeVisits{Series: series()}, token.ScopeRead, []string{
			"<b>601</b> by people, <b>450</b> by bots", `viewBox="0 0 596 120"`, `<rect class="human" x="580" y="48" width="16" height="72"/>`,
			`<rect class="bot" x="580" y="0" width="16" height="48"/>`, `<th scope="row">2026-11-02</th><td>0</td><td>50</td>`, "1 November", "30 November",
			"Counted until <time", "other servers counted may be missing", "<b>1,813</b> by people",
		}, []string{"cannot", `height="0"`}},
	} {
		got := renderVisits(t, tt.visits, tt.scopes)
		for _, part := range tt.has {
			if !strings.Contains(got, part) {
				t.Errorf("%s: the section lacks %q:\n%s", name, part, got)
			}
		}
		for _, part := range tt.not {
			if strings.Contains(got, part) {
				t.Errorf("%s: the section contains %q:\n%s", name, part, got)
			}
		}
	}
}

// Every page can be rendered with every kind of link and person.
func TestEveryPageCanBeRendered(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	details := &shortener.Details{Owner: 1, Title: "T", Tags: []string{"a"}, Editable: true, Version: 2, ChangedAt: now}
	links := []shortener.Link{
		{Code: "a", URL: "https://go.dev", CreatedAt: now}, {Code: "b", URL: "https://go.dev/", CreatedAt: now, Details: details},
		{Code: "c", URL: "https://go.dev/", CreatedAt: now, ExpiresAt: now}, {Code: "d", URL: "https://go.dev/", CreatedAt: now, DeletedAt: now},
	}
	u := &UI{Config: Config{Base: "/links", Tokens: noTokens{}}}
	all := parsePages()
	for _, p := range []person{{operator: true}, {}, {signedIn: true}} {
		for i := range links {
			r := u.row(&links[i], destination.Origin{})
			for _, page := range []page{all.list, all.link, all.create, all.remove, all.signIn, all.message} {
				v := &view{
					shellData: &shellData{shell.New(assets, nil, nil), "/links"}, Title: "T", Person: p, Link: &r, Form: formOf(&links[i]),
					Visits: draw(series()), List: &list{Links: []row{r}, Next: "x", filter: filter{Cursor: "y"}}, QR: template.HTML("<svg></svg>"),
				}
				if err := page.Execute(&bytes.Buffer{}, v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
