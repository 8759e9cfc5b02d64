package server

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestExamplesOfAPIDocumentationWork runs the examples of docs/api.md on a server with each engine.
func TestExamplesOfAPIDocumentationWork(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) < 12 {
		t.Fatalf("docs/api.md has %d examples", len(examples))
	}
	onDatabases(t, func(t *testing.T, url string) {
		server := start(t, settings(t, url, ""))
		bearer, _ := createdToken(t, url, "--name=docs", "--scope=create,read,edit")
		for _, example := range examples {
			script := strings.Replace(string(example[1]), "curl ", "curl --fail-with-body ", 1)
			shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
			shell.Env = append(os.Environ(), "KEYPOOL=http://"+server.Addr().String(), "TOKEN="+bearer)
			var output bytes.Buffer
			shell.Stdout, shell.Stderr = &output, &output
			if err := shell.Run(); err != nil {
				t.Errorf("%v\n%s\n%s", err, example[1], &output)
			}
			t.Logf("%s%s", example[1], &output)
		}
	})
}
