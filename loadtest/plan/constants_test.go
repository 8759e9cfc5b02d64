package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keypool/kgs/codespace"
	"keypool/kgs/refill"
	"keypool/loadtest/report"
	"keypool/shortener/service"
)

func TestPlanConstantsEqualProductConstants(t *testing.T) {
	t.Parallel()
	if len(codespace.Alphabet) != characters {
		t.Errorf("the alphabet of the product has %d characters, and that of the plan %d", len(codespace.Alphabet), characters)
	}
	if got := float64(refill.LowWater(1000)) / 1000; got != lowWaterRatio {
		t.Errorf("the low-water mark of the product is %v, which differs from the constant of the plan", got)
	}
	if service.DefaultCacheSize != cachedLinks || service.Freshness.Seconds() != freshness {
		t.Errorf("the cache of the product has %d links, which are fresh for %v; the constants of the plan differ", service.DefaultCacheSize, service.Freshness)
	}
	settings := read(t, "cmd/internal/config/config.go")
	for _, want := range []string{
		`KGS_BATCH_MIN" default:"100" min:"1" max:"1000000"`, `KGS_BATCH_MAX" default:"100000"`, `KGS_POOL_CAPACITY" default:"1000000" min:"100" max:"10000000000"`,
		`KGS_RESTART_BELOW" default:"20%"`, `KGS_PAGE_BELOW" default:"10%"`,
	} {
		if !strings.Contains(settings, want) {
			t.Errorf("the settings of the product have changed: they do not contain %s", want)
		}
	}
	product := read(t, "kgs/refill/deadman_state.go") + read(t, "kgs/refill/deadman.go")
	for _, want := range []string{
		fmt.Sprintf("restartRunway = %d\n", restartRunway), fmt.Sprintf("pageRunway    = %d\n", pageRunway),
		fmt.Sprintf("stillAfter  = %d * time.Second ", stillAfter), "lookInterval    = time.Second\n",
	} {
		if !strings.Contains(product, want) {
			t.Errorf("the dead man's switch of the product has changed: it does not contain %q", want)
		}
	}
	if !strings.Contains(read(t, "kgs/source.go"), "cmp.Or(cfg.Hold, 2*time.Second)") {
		t.Error("the time that a batch lasts has changed")
	}
}

// If the source of a constant is a section of a document, the section contains the value of the constant. If the
// source is a setting in a document, the line of the setting contains the value.
func TestDocumentsContainPlanConstants(t *testing.T) {
	t.Parallel()
	inDocument := regexp.MustCompile(`^(docs/[a-z-]+\.md), (.*)$`)
	for _, c := range Constants() {
		if c.Source == "" {
			t.Errorf("%s has no source", c.Name)
		}
		found := inDocument.FindStringSubmatch(c.Source)
		if found == nil {
			continue
		}
		text, section := read(t, found[1]), found[2]
		if _, after, ok := strings.Cut(text, "\n## "+section); ok {
			text, _, _ = strings.Cut(after, "\n## ")
		} else if _, after, ok = strings.Cut(text, "`"+section+"`"); ok { // a setting
			text, _, _ = strings.Cut(after, "\n")
		} else {
			t.Errorf("%s: %s has no %s", c.Name, found[1], section)
			continue
		}
		forms := []string{report.Number(c.Value), report.Number(c.Value/1e6) + "M/s", report.Number(100*c.Value) + "%", plain(c.Value)}
		for i, form := range forms {
			forms[i] = regexp.QuoteMeta(form)
		}
		if !regexp.MustCompile(`(^|[^\d.])(` + strings.Join(forms, "|") + `)($|\D)`).MatchString(text) {
			t.Errorf("%s: %s does not contain %v", c.Name, c.Source, c.Value)
		}
	}
}

// plain formats a number without commas.
func plain(v float64) string { return strings.ReplaceAll(report.Number(v), ",", "") }

// If the source of a constant is a source file, the file contains the identifier that the
// source names.
func TestIdentifierNamedAsSourceOfConstantExists(t *testing.T) {
	t.Parallel()
	inFile := regexp.MustCompile(`^([a-z/_]+\.go), (?:\w+\.)?(\w+)$`)
	n := 0
	for _, c := range Constants() {
		if found := inFile.FindStringSubmatch(c.Source); found != nil {
			n++
			if !regexp.MustCompile(`\b` + found[2] + `\b`).MatchString(read(t, found[1])) {
				t.Errorf("%s: %s has no %s", c.Name, found[1], found[2])
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d constants have a source file as their source, want at least 5", n)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
