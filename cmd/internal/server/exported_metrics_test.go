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

// A rule or a dashboard that names a metric without a series shows nothing and never alerts.
func TestAlertRulesAndDashboardsUseExportedMetrics(t *testing.T) {
	t.Parallel()
	rules, recorded := ruleExpressions(t, "../../../deploy/prometheus/alerts.yml")
	known := append(exportedMetrics(t), recorded...)
	known = append(known, "up", "ALERTS") // of Prometheus itself
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

func TestMetricsInReturnsOnlyMetricNames(t *testing.T) {
	t.Parallel()
	got := metricsIn(`sum by (le, job) (rate(a_bucket{x=~"y_z|w"}[5m])) / on (instance) group_left (v) b:c > bool 0 unless d offset 5m or 1e3 and e`)
	if want := []string{"a_bucket", "b:c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("the metrics are %q, want %q", got, want)
	}
}

// exportedMetrics returns the names of the series of a server and a key service that use every part that has metrics.
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
	keywords   = []string{"and", "or", "unless", "bool", "offset"}
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
