package controls

import (
	"bytes"
	"context"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEditsOfEachControlApplyAndCompile fails if the text that an edit replaces is not in its file, or if the
// result does not compile.
func TestEditsOfEachControlApplyAndCompile(t *testing.T) {
	root := mustRoot(t)
	source := mustList(t, root)
	for _, name := range names() {
		t.Run(name, func(t *testing.T) {
			files, err := edited(root, name)
			if err != nil {
				t.Fatal(err)
			}
			edits, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range packagesOf(edits) {
				if err := source.check(root, dir, files); err != nil {
					t.Errorf("the edited package %s does not compile: %v", dir, err)
				}
			}
		})
	}
}

// names returns the names of all controls, in the order of the table.
func names() (all []string) {
	for _, e := range Table() {
		all = append(all, e.Control)
	}
	return slices.Compact(all)
}

// TestNoTwoControlsEditSameText fails when two controls edit the same text.
func TestNoTwoControlsEditSameText(t *testing.T) {
	if _, err := edited(mustRoot(t), names()...); err != nil {
		t.Error(err)
	}
}

func TestControlsAreSortedByFileAndName(t *testing.T) {
	var first []string // the first file and the name of each control
	for _, name := range names() {
		edits, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, edits[0].File+" "+name)
	}
	if !slices.IsSorted(first) || len(slices.Compact(first)) != len(first) {
		t.Errorf("the controls are not sorted by file and name, or a control occurs twice: %q", first)
	}
}

// If the text that an edit replaces is missing or occurs twice, edited returns an error. Without this
// error, the program of a control could still have the protection.
func TestControlEditMustMatchTextExactlyOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "kgs", "refill"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                              "has 0 occurrences",
		strings.Repeat("n.size()\n", 2): "has 0 occurrences",
		strings.Repeat("if size >= w.mark {\n", 2): "has 2 occurrences",
		"if size >= w.mark {\n":                    "",
	} {
		if err := os.WriteFile(filepath.Join(root, "kgs", "refill", "worker.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := edited(root, "size")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a file with the text %q: edited returns the error %v, want an error that contains %q", text, err, want)
		}
	}
	if _, err := edited(root, "no such control"); err == nil {
		t.Error("edited returns no error for an unknown control")
	}
}

func mustRoot(t *testing.T) string {
	t.Helper()
	root, err := ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// packagesOf lists the directories of the Go packages that are edited.
func packagesOf(edits []Edit) []string {
	var dirs []string
	for _, e := range edits {
		if dir := path.Dir(e.File); path.Ext(e.File) == ".go" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// sources contains what the type checker needs from the packages that controls edit.
type sources struct {
	fset    *token.FileSet
	files   map[string][]string  // the Go files of each package, by its directory
	parsed  map[string]*ast.File // the files without edits, by path
	imports types.Importer
}

// mustList asks the Go command for the files of each edited package and for the export data of its
// imports. It passes the flags of [testenv.Build], so that both use the same entries of the build
// cache.
func mustList(t *testing.T, root string) *sources {
	t.Helper()
	args := []string{"list", "-trimpath", "-export", "-deps", "-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles ","}}`}
	for _, dir := range packagesOf(Table()) {
		args = append(args, "./"+dir)
	}
	out := mustGo(t.Context(), t, root, args...)
	s := &sources{fset: token.NewFileSet(), files: make(map[string][]string), parsed: make(map[string]*ast.File)}
	compiled := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		compiled[fields[0]] = fields[1]
		if dir, err := filepath.Rel(root, fields[2]); err == nil {
			s.files[filepath.ToSlash(dir)] = strings.Split(fields[3], ",")
		}
	}
	s.imports = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	return s
}

func mustGo(ctx context.Context, t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v; it said:\n%s", args[0], err, &stderr)
	}
	return out
}

// check type-checks the package in dir with the edited files.
func (s *sources) check(root, dir string, edited map[string]string) error {
	var files []*ast.File
	for _, name := range s.files[dir] {
		name = path.Join(dir, name)
		f := s.parsed[name]
		var err error
		if text, ok := edited[name]; ok {
			f, err = parser.ParseFile(s.fset, name, text, 0)
		} else if f == nil {
			f, err = parser.ParseFile(s.fset, filepath.Join(root, name), nil, 0)
			s.parsed[name] = f
		}
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := (&types.Config{Importer: s.imports}).Check(dir, s.fset, files, nil)
	return err
}
