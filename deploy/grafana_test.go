package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The test writes each expression into a recording rule, because promtool checks only rules. A test in
// cmd/internal/server checks that the programs export the metrics in the expressions.
func TestGrafanaDashboardExpressionsAreValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("grafana/keypool.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string            `yaml:"record"`
		Expr   string            `yaml:"expr"`
		Labels map[string]string `yaml:"labels"`
	}
	var rules []rule
	ids := make(map[int]bool)
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 || ids[panel.ID] {
			t.Errorf("panel %q has no expression, or another panel has the same id %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			rules = append(rules, rule{"test:expression", target.Expr, map[string]string{"panel": panel.Title, "expr": target.Expr}})
		}
	}
	if len(rules) == 0 {
		t.Fatal("the dashboard has no expressions")
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s\nThe program is in the Debian package prometheus.", err, out)
	}
}
