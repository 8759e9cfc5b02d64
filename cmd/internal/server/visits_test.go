package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"keypool/internal/testenv/logbuffer"
	"keypool/web/admin"
)

// visitsOf returns the visits of a link that a server reports.
func (r *running) visitsOf(bearer, code string) (v struct {
	Total struct{ Human, Bot int }
	AsOf  time.Time `json:"as_of"`
}) {
	r.t.Helper()
	a := r.doAs(bearer, http.MethodGet, "http://"+r.Addr().String()+"/api/links/"+code+"/visits?by=total", "")
	if a.status != http.StatusOK {
		r.t.Fatalf("visits: status %d (want 200), %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// Two servers make an orderly stop before their first flush. No visit is lost, and the next server reports all
// visits.
func TestOrderlyStopStoresEveryVisit(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		const each, code = 50, "visited"
		var bearer string
		for range 2 {
			server := start(t, settings(t, url, "", "--visits-flush=1m"))
			base := "http://" + server.Addr().String()
			if bearer == "" {
				bearer, _ = createdToken(t, url, "--name=docs", "--scope=create,read")
				a := server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https%3A%2F%2Fexample.com%2F&alias=visited")
				if a.status != http.StatusCreated {
					t.Fatalf("create: status %d (want 201), %s", a.status, a.body)
				}
			}
			for range each {
				if a := server.do(http.MethodGet, base+"/"+code, ""); a.status != http.StatusFound {
					t.Fatalf("follow: status %d, want 302", a.status)
				}
			}
			if got := server.visitsOf(bearer, code); got.Total.Bot%each != 0 {
				t.Errorf("a server whose counts are in memory reports %d visits", got.Total.Bot)
			}
			server.stop()
		}
		server := start(t, settings(t, url, ""))
		if got := server.visitsOf(bearer, code); got.Total.Bot != 2*each || got.Total.Human != 0 {
			t.Errorf("after the stops, %+v visits are stored, want %d", got.Total, 2*each)
		}
	})
}

// A server flushes at each interval. The member as_of has the time up to which all visits are stored.
func TestServerFlushesVisitCountsAtEachInterval(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		server := start(t, settings(t, url, "", "--visits-flush=100ms"))
		bearer, _ := createdToken(t, url, "--name=docs", "--scope=create,read")
		base := "http://" + server.Addr().String()
		server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https%3A%2F%2Fexample.com%2F&alias=visited")
		server.do(http.MethodGet, base+"/visited", "")
		visited := time.Now()
		deadline := time.Now().Add(patience)
		got := server.visitsOf(bearer, "visited")
		for !got.AsOf.After(visited) && time.Now().Before(deadline) {
			got = server.visitsOf(bearer, "visited")
		}
		if got.Total.Bot != 1 || !got.AsOf.After(visited) {
			t.Errorf("visits %+v as of %v, want one visit of %v", got.Total, got.AsOf, visited)
		}
		metrics := server.do(http.MethodGet, "http://"+server.AdminAddr().String()+"/metrics", "").body
		for _, metric := range []string{"shortener_visits_dropped_total 0", "shortener_visits_flush_failures_total 0", "shortener_visits_pending_rows 0"} {
			if !strings.Contains(metrics, "\n"+metric+"\n") {
				t.Errorf("the metrics lack %q", metric)
			}
		}
	})
}

func TestVisitsAPIAnswers404IfVisitsSettingIsOff(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	server := start(t, settings(t, url, "", "--visits=off", "--redirect-max-age=7"))
	bearer, _ := createdToken(t, url, "--name=docs", "--scope=create,read")
	base := "http://" + server.Addr().String()
	server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https%3A%2F%2Fexample.com%2F&alias=visited")
	if a := server.do(http.MethodGet, base+"/visited", ""); a.header.Get("Cache-Control") != "private, max-age=7" {
		t.Errorf("Cache-Control is %q, want private, max-age=7", a.header.Get("Cache-Control"))
	}
	if a := server.doAs(bearer, http.MethodGet, base+"/api/links/visited/visits", ""); a.status != http.StatusNotFound || !strings.Contains(a.body, "visits-off") {
		t.Errorf("visits: status %d (want 404), %s", a.status, a.body)
	}
}

// A server that counts no visits still removes the old counts that the database has from an earlier setting. It keeps the totals.
func TestServerRemovesOldCountsIfVisitsSettingIsOff(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		migrated(t, url)
		db := openSQL(t, url)
		for _, statement := range []string{
			`INSERT INTO visits (code, hour, owner, human, bot) VALUES ('visited', 1, 0, 5, 0)`,
			`INSERT INTO visit_facets (code, facet, day, value, human, bot) VALUES ('visited', 1, 1, 'example.com', 5, 0)`,
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		server := start(t, settings(t, url, "", "--visits=off"))
		server.await("the removal of the old counts", func(admin.Status) bool {
			var old, total int
			err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM visits WHERE hour > 0) + (SELECT count(*) FROM visit_facets),
				(SELECT sum(human) FROM visits)`).Scan(&old, &total)
			if err != nil || total != 5 {
				t.Fatalf("the database has %d visits (want 5), error %v", total, err)
			}
			return old == 0
		})
	})
}

func TestCountryHeaderWithoutTrustedProxiesCausesWarning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		warned bool
	}{
		{[]string{"--country-header=CF-IPCountry"}, true},
		{[]string{"--country-header=CF-IPCountry", "--visits=off"}, false},
		{[]string{"--country-header=CF-IPCountry", "--trusted-proxies=192.0.2.0/24"}, false},
		{nil, false},
	} {
		var log logbuffer.Buffer
		startLogging(t, settings(t, sqliteURL(t), "", test.args...), &log)
		if warned := strings.Contains(log.String(), "set TRUSTED_PROXIES"); warned != test.warned {
			t.Errorf("with %v a warning is logged: %t, want %t", test.args, warned, test.warned)
		}
	}
}
