package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"keypool/cmd/internal/server"
	"keypool/loadtest/figures"
)

// question is a section of docs/tour.md with the one command that it contains.
type question struct{ text, command string }

func questions(t *testing.T) (all []question) {
	t.Helper()
	parts := regexp.MustCompile(`(?m)^## (\d+\. .*)$`).Split(readDoc(t, "docs/tour.md"), -1)
	for i, text := range parts[1:] {
		commands := regexp.MustCompile(`(?m)^ {4}(\S.*)$`).FindAllStringSubmatch(text, -1)
		if len(commands) != 1 {
			t.Fatalf("question %d of docs/tour.md has %d commands, want 1", i+1, len(commands))
		}
		all = append(all, question{text: text, command: commands[0][1]})
	}
	return all
}

func readDoc(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each question links to exactly one Go file. Each link leads to a file and a heading that exist.
func TestLinksInTourDocumentLeadToExistingFiles(t *testing.T) {
	t.Parallel()
	all := questions(t)
	if len(all) != 10 {
		t.Errorf("docs/tour.md has %d questions, want 10", len(all))
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#([^)]+))?\)`)
	for i, q := range all {
		links := link.FindAllStringSubmatch(q.text, -1)
		files := slices.DeleteFunc(slices.Clone(links), func(l []string) bool { return !strings.HasSuffix(l[1], ".go") })
		if len(files) != 1 || len(links) < 2 && !strings.Contains(q.text, "output") {
			t.Errorf("question %d: %d files to read and %d links, want 1 file and an output, chart or picture", i+1, len(files), len(links))
		}
		for _, l := range links {
			checkLink(t, i+1, l[1], l[2])
		}
	}
}

func checkLink(t *testing.T, number int, file, anchor string) {
	t.Helper()
	text := readDoc(t, filepath.Join("docs", file))
	if anchor == "" {
		return
	}
	for heading := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimLeft(heading, "#"), " "); ok && heading[0] == '#' && figures.Anchor(strings.TrimSpace(name)) == anchor {
			return
		}
	}
	t.Errorf("question %d: %s has no heading #%s", number, file, anchor)
}

// The test runs each command of the tour. If a command would take minutes, the test lists the experiments of the command
// instead of running them. The listing fails if the name of an experiment is unknown.
func TestCommandsInTourDocumentSucceed(t *testing.T) {
	t.Parallel()
	database := "--database-url=sqlite:" + filepath.Join(t.TempDir(), "links.db")
	shortener := func(args ...string) (int, string) {
		var out bytes.Buffer
		return server.Run(t.Context(), append([]string{database}, args...), &out, &out), out.String()
	}
	startOnce(t, database)
	for i, q := range questions(t) {
		var status int
		var out string
		switch words := strings.Fields(q.command); {
		case words[0] == "make":
			status, out = listed(t, words[1:])
		case words[0] == "bin/shortener":
			status, out = shortener(words[1:]...)
		case strings.HasPrefix(q.command, "bin/loadtest all --only="):
			status, out = runLoadtest("experiments", "--list", strings.TrimPrefix(words[2], "--only="))
		default:
			status, out = runLoadtest(words[1:]...)
		}
		if status != 0 || out == "" {
			t.Errorf("question %d: %s: exit status %d, output %q", i+1, q.command, status, out)
		}
	}
}

// startOnce starts a server, which creates the database, and stops it as soon as it serves.
func startOnce(t *testing.T, database string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &untilServing{cancel: cancel}
	if status := server.Run(ctx, []string{database, "--listen-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, io.Discard, log); status != 0 {
		t.Fatalf("exit status %d; the log of the server:\n%s", status, &log.text)
	}
}

// untilServing is a log that stops the server when the server logs that it serves.
type untilServing struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	text   bytes.Buffer
}

func (w *untilServing) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(line, []byte(`"serving"`)) {
		w.cancel()
	}
	return w.text.Write(line)
}

func runLoadtest(args ...string) (int, string) {
	var out bytes.Buffer
	return run(context.Background(), args, &out, &out), out.String()
}

// listed lists the experiments that a make target runs. The target must be in the Makefile.
func listed(t *testing.T, words []string) (int, string) {
	t.Helper()
	if !strings.Contains(readDoc(t, "Makefile"), "\n"+words[0]+": ") {
		t.Errorf("the Makefile has no target %s", words[0])
	}
	group := map[string]string{"compare": "compare", "drill": "fault", "bench": "bars"}[words[0]]
	if group == "" {
		t.Errorf("the test does not know the experiments of make %s", words[0])
	}
	if len(words) > 1 {
		_, value, _ := strings.Cut(words[1], "=")
		group += "/" + value
	}
	return runLoadtest("experiments", "--list", group)
}
