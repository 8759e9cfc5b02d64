package server

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"keypool/internal/testenv"
	"keypool/web/admin"
)

// If no program exports a metric, a dashboard that names the metric shows nothing, and an alert rule
// that names it never fires.
func TestAlertRulesAndDashboardsUseExportedMetrics(t *testing.T) {
	t.Parallel()
	rules, recorded := ruleExpressions(t, "../../../deploy/prometheus/alerts.yml")
	known := append(exportedMetrics(t), recorded...)
	known = append(known, "up", "ALERTS") // made by Prometheus itself
	for where, expressions := range map[string][]string{
		"alerts.yml": rules, "the dashboards": dashboardExpressions(t, "../../../deploy/grafana"),
	} {
		if len(expressions) == 0 {
			t.Errorf("no expression was found in %s", where)
		}
		for _, expression := range expressions {
			for _, name := range metricsIn(expression) {
				if !slices.Contains(known, name) {
					t.Errorf("no program exports %s, which %s uses in: %s", name, where, expression)
				}
			}
		}
	}
}

// contract lists the metrics that dashboards and alerts of operators may use, with the names of their labels. It
// omits log_lines_dropped_total, because only a program that logs to standard error has this metric, and the programs
// in these tests do not. A server without Redis does not export the metrics of Redis. Only a key service exports the
// metrics of its clients.
const contract = `kgs_pool_keys kgs_pool_epoch kgs_pool_capacity_keys kgs_local_keys kgs_runway_seconds kgs_space_used_ratio kgs_keys_reserved_total
	kgs_keys_generated_total kgs_keys_taken_total{source} kgs_keys_abandoned_total{reason} kgs_key_conflicts_total{source}
	kgs_fallback_attempts_count kgs_refill_seconds_count kgs_last_push_timestamp_seconds kgs_breaker_state kgs_worker_restarts_total
	kgs_pages_total kgs_pool_may_evict kgs_space_runway_seconds kgs_serving_from{source} kgs_ledger_skips_total kgs_witness_failures_total
	kgs_alerts_total{outcome} keypool_ready kgs_service_keys_total{client} kgs_service_requests_total{code,procedure}
	http_connections shortener_links_created_total{kind} shortener_redirects_total{result} shortener_commit_rows_count
	shortener_commit_seconds_count http_request_duration_seconds_count{method,route,status}`

func TestProgramsExportEveryMetricThatIsPromisedToOperators(t *testing.T) {
	t.Parallel()
	for source, lacks := range map[string][]string{
		"memory-pool": {"kgs_pool_epoch", "kgs_breaker_state", "kgs_pool_may_evict", "kgs_service_keys_total{client}", "kgs_service_requests_total{code,procedure}"},
		"redis-pool":  nil,
	} {
		redisURL := ""
		if source == "redis-pool" {
			redisURL = testenv.StartRedis(t).URL
		}
		s := settings(t, sqliteURL(t), redisURL, "--alert-webhook-url=http://127.0.0.1:9/")
		r := start(t, s)
		addrs := []string{r.AdminAddr().String()}
		if source == "redis-pool" {
			service, _ := startKeyServiceWith(t, s.Common)
			addrs = append(addrs, service.AdminAddr().String())
			askKeyService(t, service.Addr().String())
		}
		r.await("a full pool", fullWithBatch)
		r.shorten("https://go.dev/")
		r.await("a look at the ledger", func(s admin.Status) bool { return s.SpaceUsedRatio != nil })
		var exported []string
		for _, addr := range addrs {
			exported = append(exported, seriesIn(r.do(http.MethodGet, "http://"+addr+"/metrics", "").body)...)
		}
		for _, series := range strings.Fields(contract) {
			if got, want := slices.Contains(exported, series), !slices.Contains(lacks, series); got != want {
				t.Errorf("%s: a program exports %s: %v, want %v", source, series, got, want)
			}
		}
	}
}

// askKeyService sends one request to a key service, because the counter of requests has no series before the first
// request.
func askKeyService(t *testing.T, addr string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/keypool.kgs.v1.KeyService/Status", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+kgsToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the key service answers with %s", answer.Status)
	}
}

// seriesIn returns the names of the series of a scrape, each with the sorted names of its labels.
func seriesIn(scrape string) (series []string) {
	for line := range strings.Lines(scrape) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, found := strings.Cut(line[:strings.LastIndexByte(line, ' ')], "{")
		if found {
			var names []string
			for _, match := range labelName.FindAllStringSubmatch(labels, -1) {
				names = append(names, match[1])
			}
			slices.Sort(names)
			name += "{" + strings.Join(names, ",") + "}"
		}
		series = append(series, name)
	}
	return series
}

var labelName = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)

func TestMetricNamesAreExtractedFromExpression(t *testing.T) {
	t.Parallel()
	got := metricsIn(`sum by (le, job) (rate(a_bucket{x=~"y_z|w"}[5m])) / on (instance) group_left (v) b:c > bool 0 unless d offset 5m or 1e3 and e`)
	if want := []string{"a_bucket", "b:c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("the metrics are %q, want %q", got, want)
	}
}

// exportedMetrics returns the names of the series of two servers and a key service. Together, these programs use every part
// that has metrics.
func exportedMetrics(t *testing.T) []string {
	t.Helper()
	redis, primary := testenv.StartRedis(t), testenv.StartPostgres(t)
	s := settings(t, primary.URL, redis.URL, "--alert-webhook-url=http://127.0.0.1:9/")
	r := start(t, s)
	service, keys := startKeyServiceWith(t, s.Common)

	standby := testenv.StartStandby(t, primary) // it begins with the tables of the primary
	reader := start(t, settings(t, primary.URL, "", "--database-read-urls="+standby.URL, "--key-source=kgs", "--kgs-url="+keys))
	metrics := func(addr string) string { return r.do(http.MethodGet, "http://"+addr+"/metrics", "").body }
	reader.await("the lag of the replica", func(admin.Status) bool {
		return strings.Contains(metrics(reader.AdminAddr().String()), "shortener_replica_lag_seconds{")
	})
	r.await("a runway, which exists only while keys are taken from the pool", func(admin.Status) bool {
		for range 50 {
			r.shorten("https://go.dev/")
		}
		return strings.Contains(metrics(r.AdminAddr().String()), "kgs_runway_seconds ")
	})
	var names []string
	for _, addr := range []string{r.AdminAddr().String(), reader.AdminAddr().String(), service.AdminAddr().String()} {
		for line := range strings.Lines(metrics(addr)) {
			if !strings.HasPrefix(line, "#") {
				names = append(names, line[:strings.IndexAny(line, "{ ")])
			}
		}
	}
	return names
}

// ruleExpressions returns the expressions of a file of rules, and the names of the series that the rules record.
func ruleExpressions(t *testing.T, path string) (expressions, recorded []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Expr)
			recorded = append(recorded, rule.Record)
		}
	}
	return expressions, recorded
}

// dashboardExpressions returns the value of each member "expr" in the JSON files of a directory.
func dashboardExpressions(t *testing.T, dir string) (expressions []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS(dir), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		var dashboard any
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		expressions = append(expressions, textsOf(dashboard, "expr")...)
	}
	return expressions
}

// textsOf returns the texts of all members with this name in a JSON value.
func textsOf(value any, name string) (texts []string) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			texts = append(texts, textsOf(element, name)...)
		}
	case map[string]any:
		for key, element := range value {
			if text, ok := element.(string); ok && key == name {
				texts = append(texts, text)
			}
			texts = append(texts, textsOf(element, name)...)
		}
	}
	return texts
}

var (
	// noMetric matches the parts of an expression in which identifiers are not metrics: comments, texts, matchers, ranges,
	// lists of labels and durations.
	noMetric   = regexp.MustCompile(`#.*|"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\b[0-9][0-9a-z.]*`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	keywords   = []string{"and", "or", "unless", "bool", "offset", "Inf"}
)

// metricsIn returns the names of the metrics in an expression.
func metricsIn(expression string) (names []string) {
	for _, word := range identifier.FindAllString(noMetric.ReplaceAllString(expression, " "), -1) {
		if name := strings.TrimSpace(word); !strings.HasSuffix(name, "(") && !slices.Contains(keywords, name) {
			names = append(names, name)
		}
	}
	return names
}
