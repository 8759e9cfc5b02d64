package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestCloseOmitsAnErrorThatALaterCheckpointResolved closes a database after one failed checkpoint (the disk was
// full). The checkpoint in Close succeeds, so Close returns no error.
func TestCloseOmitsAnErrorThatALaterCheckpointResolved(t *testing.T) {
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
