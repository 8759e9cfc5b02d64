package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestCloseForgetsTroubleThatIsOver closes a database whose log could once not be moved, for
// want of space, and can be by now.
func TestCloseForgetsTroubleThatIsOver(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.checkpoints.stop()
	<-db.checkpoints.done
	db.checkpoints.err = errors.New("the disk was full")
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
