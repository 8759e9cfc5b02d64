package fault

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest/lab"
)

// diskRows are the faults of disks and files.
func diskRows() []row {
	full := theLinks(
		observed("links refused", "With a full disk, creations are refused."),
		observed(refusal, "With a full disk, a creation is answered with 503 and Retry-After."),
		observed("healthz", "With a full disk, /healthz answers 503."),
		observed(recovers, "With space on the disk again, links are created again without help."),
	)
	return []row{
		{
			Name: "fault/18", Title: "disk full, SQLite",
			Summary: "A file fills the disk of 16 MB that has the SQLite file, and is removed later, again and again.",
			Run:     inject(diskFullEmbedded), Claims: full, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/18b", Title: "disk full, PostgreSQL",
			Summary: "As row 18, with the tables of PostgreSQL on that disk. Its log is on another one: without space for the log PostgreSQL would stop.",
			Run:     inject(diskFullPostgres), Claims: full, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/19", Title: "SQLite under 32 writers and a backup", Alone: true,
			Summary: "32 clients write through two servers to one SQLite file, while VACUUM INTO and `audit` run again and again.",
			Run:     inject(busyEmbedded), Controls: without(unfailing, "busy"),
			Claims: theLinks(noneFails("while the fault lasts"), observed("integrity", "SQLite finds nothing wrong with the database and with every backup.")),
		},
	}
}

func diskFullEmbedded(r *run) {
	disk := smallDisk(r, r.TempDir())
	r.store("sqlite:" + filepath.Join(disk, "shortener.db"))
	diskFull(r, disk, r.started())
}

func diskFullPostgres(r *run) {
	postgres := lab.Postgres(r)
	disk := smallDisk(r, postgres.Dir())
	tables := filepath.Join(disk, "tables")
	// PostgreSQL makes the directory itself, because it must be its owner.
	lab.Execute(r, postgres.URL, "COPY (SELECT WHERE false) TO PROGRAM 'mkdir -m 700 "+tables+"'")
	lab.Execute(r, postgres.URL, "CREATE TABLESPACE small LOCATION '"+tables+"'")
	r.store(postgres.URL)
	diskFull(r, disk, r.started("DATABASE_URL="+r.links+"&default_tablespace=small"))
}

func diskFull(r *run, disk string, server *lab.Program) {
	load := r.traffic(server)
	// SQLite has a log of some megabytes to write to first, and PostgreSQL half a page.
	limit := 4*time.Second + r.Lasting(20*time.Second)
	for range r.Times(5) {
		load.Start(100)
		load.AwaitMore(int64(50 + r.Times(100)))
		remove := fill(r, disk)
		r.strike(1)
		within := func(claim string, ok func() bool) {
			seen := lab.Happens(r, limit, ok)
			r.saw(claim, seen, "within %v: %t", limit, seen)
		}
		within("links refused", func() bool { return load.Figures().Refused > 0 })
		within("healthz", func() bool {
			err := server.Client.Healthy(r.Context())
			return err != nil && strings.Contains(err.Error(), "503 ")
		})
		within(refusal, func() bool { _, right := refused(r, server); return right })
		lab.Pause(r, r.Lasting(time.Second))
		r.stop(load)
		remove()
		load.Start(100)
		r.becomes(recovers, "a link is created", func() bool { return load.Figures().Acknowledged > 0 })
		r.stop(load)
	}
	r.end(server)
}

// smallDisk mounts a file system of 16 MB in a directory. That takes root, or a user namespace that
// this process is in.
func smallDisk(r *run, in string) string {
	disk := filepath.Join(in, "small")
	r.Must(os.Mkdir(disk, 0o700))
	if err := syscall.Mount("keypool-fault", disk, "tmpfs", 0, "size=16m,mode=1777"); err != nil {
		r.Fatalf("mount a small disk: %w; it takes root", err)
	}
	r.Cleanup(func() {
		// Lazily: what has files open there is about to end.
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			r.Errorf("unmount the small disk: %w", err)
		}
	})
	return disk
}

// fill leaves no space on a disk until remove.
func fill(r *run, disk string) (remove func()) {
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	r.Must(err)
	for size := 64 << 10; size > 0; { // down to the last byte
		_, err = ballast.Write(make([]byte, size))
		if err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		r.Fatalf("fill the disk: %w", err)
	}
	return func() { r.Must(errors.Join(ballast.Close(), os.Remove(ballast.Name()))) }
}

// busyEmbedded runs alone: SQLite is not to blame for a disk that others keep busy.
func busyEmbedded(r *run) {
	r.embedded()
	servers := []*lab.Program{r.started(), r.started()}
	for range 16 { // writers on each server
		r.start(servers[0], 5)
		r.start(servers[1], 5)
	}
	path := strings.TrimPrefix(r.links, "sqlite:")
	for began := time.Now(); time.Since(began) < r.Lasting(20*time.Second) || r.record.Strikes < 3; r.strike(1) {
		backup := filepath.Join(r.TempDir(), "backup.db")
		onFile(r, path, "VACUUM INTO ?", backup)
		sawIntegrity(r, backup)
		r.audit(servers[0])
	}
	r.serve(r.loads...)
	r.end(servers...)
	sawIntegrity(r, path)
}

// sawIntegrity makes SQLite check all of a database.
func sawIntegrity(r *run, path string) {
	first := onFile(r, path, "PRAGMA integrity_check") // of the problems, or "ok"
	r.saw("integrity", first == "ok", "%s: %s", filepath.Base(path), first)
}

// onFile executes a statement on the SQLite file at path and returns the first row, "" without one.
func onFile(r *run, path, statement string, args ...any) (first string) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	r.Must(err)
	err = db.QueryRowContext(r.Context(), statement, args...).Scan(&first)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	r.Must(errors.Join(err, db.Close()))
	return first
}
