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

// diskRows returns the fault rows in which a disk is full, or backups run during writes.
func diskRows() []row {
	full := theLinks(
		observed("creations refused", "While the disk is full, the server begins to refuse creations."),
		observed(refusal, "While the disk is full, the server answers a creation with 503 and Retry-After."),
		observed("healthz answers 503", "While the disk is full, /healthz answers with status 503."),
		observed(recovers, "When the disk has space again, the server creates links again without intervention."),
	)
	return []row{
		{
			Name: "fault/18", Title: "disk full, SQLite",
			Summary: "The SQLite file is on a disk of 16 MB. A large file fills the disk and is removed later. At scale 1, this happens five times.",
			Run:     inject(diskFullEmbedded), Claims: full, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/18b", Title: "disk full, PostgreSQL",
			Summary: "The tables of PostgreSQL are on a disk of 16 MB. A large file fills the disk and is removed later. At scale 1, this happens five times. " +
				"The write-ahead log is on another disk, because PostgreSQL stops when the log has no space.",
			Run: inject(diskFullPostgres), Claims: full, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/19", Title: "SQLite with 32 writers during backups", Alone: true,
			Summary: "32 clients write to one SQLite file through two servers. Meanwhile VACUUM INTO and `audit` run repeatedly.",
			Run:     inject(busyEmbedded), Controls: without(unfailing, "busy"),
			Claims: theLinks(noneFails("during the backups and audits"), observed("SQLite integrity", "The integrity check of SQLite finds no problem in the database or in any backup.")),
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
	// PostgreSQL creates the directory itself, because PostgreSQL must own it.
	lab.Execute(r, postgres.URL, "COPY (SELECT WHERE false) TO PROGRAM 'mkdir -m 700 "+tables+"'")
	lab.Execute(r, postgres.URL, "CREATE TABLESPACE small LOCATION '"+tables+"'")
	r.store(postgres.URL)
	diskFull(r, disk, r.started("DATABASE_URL="+r.links+"&default_tablespace=small"))
}

// diskFull fills the disk under load and makes space again. At scale 1, it does this five times.
func diskFull(r *run, disk string, server *lab.Program) {
	load := r.traffic(server)
	// Creations still succeed for a while after the disk is full. They fail when SQLite has filled its log of a few
	// megabytes, or when PostgreSQL has used the free space in the last page of the table.
	limit := 4*time.Second + r.Lasting(20*time.Second)
	for range r.Times(5) {
		load.Start(100)
		load.AwaitMore(int64(50 + r.Times(100)))
		remove := fill(r, disk)
		r.strike(1)
		within := func(claim, what string, ok func() bool) {
			seen := lab.Happens(r, limit, ok)
			r.saw(claim, seen, "while the disk was full, the run waited for at most %v and %s that %s", limit, either(seen, "observed", "did not observe"), what)
		}
		within("creations refused", "a creation is refused", func() bool { return load.Figures().Refused > 0 })
		within("healthz answers 503", "/healthz answers with status 503", func() bool {
			err := server.Client.Healthy(r.Context())
			return err != nil && strings.Contains(err.Error(), "503 ")
		})
		within(refusal, "a creation is answered with 503 and Retry-After", func() bool { _, _, right := refused(r, server); return right })
		lab.Pause(r, r.Lasting(time.Second))
		r.stop(load)
		remove()
		load.Start(100)
		r.becomes(recovers, "the disk had space again and the load had begun", "a link is created", func() bool { return load.Figures().Acknowledged > 0 })
		r.stop(load)
	}
	r.end(server)
}

// smallDisk mounts a file system of 16 MB in the directory dir and returns its path. This process must be
// root, at least in its user namespace.
func smallDisk(r *run, dir string) string {
	disk := filepath.Join(dir, "small")
	r.Must(os.Mkdir(disk, 0o700))
	if err := syscall.Mount("keypool-fault", disk, "tmpfs", 0, "size=16m,mode=1777"); err != nil {
		r.Fatalf("mount a small disk: %w; run the experiment as root", err)
	}
	r.Cleanup(func() {
		// MNT_DETACH is necessary, because programs that are about to end still have files open there.
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			r.Errorf("unmount the small disk: %w", err)
		}
	})
	return disk
}

// fill writes a file that leaves no space on the disk. The function remove deletes the file.
func fill(r *run, disk string) (remove func()) {
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	r.Must(err)
	for size := 64 << 10; size > 0; { // the parts become smaller until the disk has no byte left
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

// busyEmbedded makes backups and audits of an SQLite file while two servers write to it. The fault row runs alone, because
// a disk that other experiments keep busy would make SQLite slow.
func busyEmbedded(r *run) {
	r.embedded()
	servers := []*lab.Program{r.started(), r.started()}
	for range 16 { // each server gets 16 writers
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

// sawIntegrity records the result of SQLite's integrity check of a database file.
func sawIntegrity(r *run, path string) {
	first := onFile(r, path, "PRAGMA integrity_check") // the first problem, or "ok"
	r.saw("SQLite integrity", first == "ok", "the integrity check of %s returns %q", filepath.Base(path), first)
}

// lockFile takes the write lock of the SQLite file at path. It returns a function that releases the lock.
func lockFile(r *run, path string) (release func()) {
	db := openFile(r, path)
	_, err := db.ExecContext(r.Context(), "BEGIN IMMEDIATE")
	r.Must(err)
	return func() {
		_, err := db.ExecContext(r.Context(), "ROLLBACK")
		r.Must(errors.Join(err, db.Close()))
	}
}

// onFile executes a statement on the SQLite file at path. It returns the first row, or "" if there is no row.
func onFile(r *run, path, statement string, args ...any) (first string) {
	db := openFile(r, path)
	err := db.QueryRowContext(r.Context(), statement, args...).Scan(&first)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	r.Must(errors.Join(err, db.Close()))
	return first
}

// openFile opens the SQLite file at path with one connection. The caller closes it.
func openFile(r *run, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	r.Must(err)
	db.SetMaxOpenConns(1)
	return db
}
