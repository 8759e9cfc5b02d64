//go:build drill

package sources

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keypool/internal/testenv"
)

// What CONTRIBUTING.md shows, one file and one line, is a source like any other.
func TestTenthSource(t *testing.T) {
	t.Parallel()
	file, line := shown(t)
	dir := t.TempDir()
	if err := testenv.Build(t.Context(), dir, "-overlay", overlay(t, file, line), "keypool/cmd/..."); err != nil {
		t.Fatal(err)
	}
	conform(t, source{"nanoid", []string{"KEY_SOURCE=nanoid"}, "nanoid", `[0-9A-Za-z_-]{21}`, nil}, dir)
}

// shown takes the Go file and the line of its section out of CONTRIBUTING.md.
func shown(t *testing.T) (file, line string) {
	t.Helper()
	text, err := os.ReadFile(root(t, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## A key source of your own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindAllStringSubmatch(section, -1)
	if !found || len(blocks) != 2 || strings.Count(blocks[1][1], "\n") != 1 {
		t.Fatalf("CONTRIBUTING.md does not show one file and one line: %q", blocks)
	}
	return blocks[0][1], blocks[1][1]
}

// overlay is the path of a file that has `go build` see the file in package keysource and the line
// in the table of sources; nothing in the tree changes.
func overlay(t *testing.T, file, line string) string {
	t.Helper()
	const begin = "func keySources() []keySource {\n\treturn []keySource{\n"
	chain, err := os.ReadFile(root(t, "cmd/internal/app/chain.go"))
	if err != nil {
		t.Fatal(err)
	}
	entered := strings.Replace(string(chain), begin, begin+line, 1)
	if entered == string(chain) {
		t.Fatalf("chain.go has no %q", begin)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for path, text := range map[string]string{"kgs/keysource/nanoid.go": file, "cmd/internal/app/chain.go": entered} {
		instead := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(instead, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[root(t, path)] = instead
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// root is the path of a file of the project.
func root(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
