package fault

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

const (
	noFalseAck = "no acknowledgement without the files"
	unhealthy  = "healthz answers 503"
	inTime     = "refusal in time"
)

// movedLimit is the longest time that a server without its files may take until it refuses
// creations and answers /healthz with 503.
const movedLimit = 2 * time.Second

// movedRows returns the fault row in which the files of a database are deleted, moved or replaced.
func movedRows() []row {
	return []row{{
		Name: "fault/31", Title: "SQLite files deleted, moved or replaced under a running server",
		Summary: "Under load, the directory of the database, the database file and its write-ahead log are moved away and back, one after the other. The database file is also " +
			"deleted and restored, and replaced by a copy and restored. At the end, a backup replaces the files, and the server starts again with the backup.",
		Run: inject(filesMoved), Controls: without(noFalseAck, "file-guard"),
		Claims: theLinks(
			counted(noFalseAck, "creations", "If a creation is sent while the SQLite files that the server opened are not at their path, it is never acknowledged."),
			observed(refusal, "While the SQLite files that the server opened are not at their path, the server answers a creation with 503 and Retry-After."),
			observed(unhealthy, "While the SQLite files that the server opened are not at their path, /healthz answers with status 503."),
			timed(inTime, "Within 2 s after the SQLite files were moved, deleted or replaced, the server refuses creations, and /healthz answers with status 503."),
			observed(recovers, "When the SQLite files are back, the server creates links again without intervention."),
		),
	}}
}

func filesMoved(r *run) {
	dir := filepath.Join(r.TempDir(), "data")
	file := filepath.Join(dir, "shortener.db")
	r.store("sqlite:" + file)
	server := r.started()
	load := r.start(server, 100)
	load.AwaitMore(50)
	for range r.Times(3) {
		for _, harm := range []struct {
			path string
			do   func(path, kept string) error
		}{{dir, os.Rename}, {file, os.Rename}, {file + "-wal", os.Rename}, {file, deleteFile}, {file, replaceFile}} {
			kept := filepath.Join(r.TempDir(), "kept")
			r.Must(harm.do(harm.path, kept))
			r.strike(1)
			r.sawNoFiles(server, load)
			r.Must(os.Rename(kept, harm.path))
			r.becomes(recovers, "the files were back", "a link is created", func() bool {
				_, err := load.TryOne(r.Context())
				return err == nil
			})
		}
	}
	r.stop(load)

	backup := filepath.Join(r.TempDir(), "backup.db")
	onFile(r, file, "VACUUM INTO ?", backup)
	r.Must(errors.Join(os.Rename(backup, file), os.Remove(file+"-wal"), os.Remove(file+"-shm")))
	r.strike(1)
	load.Start(100)
	r.sawNoFiles(server, load)
	r.stop(load)
	server.Kill() // Stop would wait for the missing database
	server.Start()
	r.end(server)
}

// sawNoFiles records what a server does without its files.
func (r *run) sawNoFiles(server *lab.Program, load *lab.Load) {
	began := time.Now()
	refuses := lab.Happens(r, 5*movedLimit, func() bool { _, _, right := refused(r, server); return right })
	r.saw(refusal, refuses, "%s creation was answered with status 503 and a header Retry-After", either(refuses, "a", "no"))
	ill := lab.Happens(r, 2*movedLimit, func() bool {
		err := server.Client.Healthy(r.Context())
		return err != nil && strings.Contains(err.Error(), "503 ")
	})
	r.saw(unhealthy, ill, "/healthz %s with status 503", either(ill, "answered", "did not answer"))
	r.took(inTime, movedLimit, time.Since(began))
	lab.Pause(r, r.Lasting(time.Second))
	late := 0
	for _, e := range load.Entries() {
		if e.At.After(began) && e.State == loadtest.Acknowledged {
			late++
		}
	}
	r.figure(noFalseAck, 0, float64(late), "%d creations were acknowledged although the opened files were not at their path when the creations were sent", late)
}

// deleteFile deletes a file. Its content stays at kept.
func deleteFile(path, kept string) error { return errors.Join(os.Link(path, kept), os.Remove(path)) }

// replaceFile replaces a file by a copy. It moves the original file to kept.
func replaceFile(path, kept string) error {
	text, err := os.ReadFile(path)
	return errors.Join(err, os.Rename(path, kept), os.WriteFile(path, text, 0o600)) //nolint:gosec // the path comes from the experiment, not from a user
}
