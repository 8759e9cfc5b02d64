package keysource

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"keypool/internal/testenv"
	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
)

// buildShown builds the programs of the run with the key source that CONTRIBUTING.md shows. No file in
// the source tree changes.
func buildShown(t *experiment.T) {
	root, err := controls.ModuleRoot(t.Context())
	t.Must(err)
	dir := t.TempDir()
	overlay, err := overlayShown(root, dir)
	t.Must(err)
	t.Programs = filepath.Join(dir, "bin")
	t.Must(testenv.Build(t.Context(), t.Programs, "-overlay", overlay, "keypool/cmd/shortener", "keypool/cmd/kgs"))
}

// overlayShown writes an overlay for `go build -overlay` into dir, and returns its path. The overlay adds the
// key source that CONTRIBUTING.md shows: one file, and one line in the table of key sources.
func overlayShown(root, dir string) (path string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		return "", err
	}
	_, section, _ := strings.Cut(string(text), "\n## A key source of your own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindAllStringSubmatch(section, -1)
	places := regexp.MustCompile("(?s)`(\\S+/nanoid\\.go)`.*\\s`(\\w+)`\\s+in\\s+`(\\S+\\.go)`").FindStringSubmatch(section)
	if len(blocks) != 2 || places == nil || strings.Count(blocks[1][1], "\n") != 1 {
		return "", fmt.Errorf("CONTRIBUTING.md must show a whole file and one line for a table in another file; code blocks: %q, names: %q", blocks, places)
	}
	file, table, in := places[1], places[2], places[3]
	code, err := os.ReadFile(filepath.Join(root, in)) //nolint:gosec // the path comes from the documentation of the project
	if err != nil {
		return "", err
	}
	begin := regexp.MustCompile(`func ` + table + `\(.*\) .*\{\n\treturn .*\{\n`).FindIndex(code)
	if begin == nil {
		return "", fmt.Errorf("%s has no function %s that returns a table", in, table)
	}
	entered := string(code[:begin[1]]) + blocks[1][1] + string(code[begin[1]:])
	return controls.WriteOverlay(root, dir, map[string]string{file: blocks[0][1], in: entered})
}
