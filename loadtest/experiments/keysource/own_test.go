package keysource

import (
	"os/exec"
	"testing"

	"keypool/loadtest/controls"
)

// The key source that CONTRIBUTING.md shows must compile.
func TestKeySourceInContributingGuideCompiles(t *testing.T) {
	t.Parallel()
	root, err := controls.ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := overlayShown(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "keypool/cmd/internal/app")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v; its output:\n%s", err, out)
	}
}
