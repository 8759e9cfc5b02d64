//go:build drill

package drill

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"time"
)

// writers is how many clients write at the same time, half of them to each server.
const writers = 32

// Two servers write to one SQLite file while it is backed up and audited without end. It
// runs alone: a disk that others keep busy for a second is no fault of SQLite's.
func busyEmbedded(d *drill) {
	dir := d.TempDir()
	database := filepath.Join(dir, "shortener.db")
	var servers []*service
	var loads []*traffic
	for range 2 {
		s := newServer(d, "DATABASE_URL=sqlite:"+database)
		s.start()
		servers = append(servers, s)
	}
	for n := range writers {
		load := newTraffic(d, servers[n%len(servers)])
		load.start(5)
		loads = append(loads, load)
	}
	var backups int
	for begin := time.Now(); time.Since(begin) < d.lasting(20*time.Second) || backups < 3; backups++ {
		backup := filepath.Join(dir, fmt.Sprintf("backup-%d.db", backups))
		query(d, database, "VACUUM INTO '"+backup+"'")
		integrity(d, backup)
		servers[0].audit()
	}
	happened(d, backups, "backup")
	var failed, due int64
	for _, load := range loads {
		f := load.stop()
		failed += f.Failed()
		due += f.Sent + f.Unsent
	}
	if failed > 0 {
		d.Errorf("%d creations failed of %d", failed, due)
	}
	end(d, sqliteCensus(database), servers, loads...)
	integrity(d, database)
}

// integrity has SQLite look through all of a database.
func integrity(d *drill, path string) {
	d.Helper()
	if said := query(d, path, "PRAGMA integrity_check"); len(said) != 1 || said[0] != "ok" {
		d.Errorf("integrity_check of %s: %q", path, said)
	}
}

// query runs SQL in the SQLite file at path and returns the texts that it gives.
func query(d *drill, path, text string) (said []string) {
	d.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(d.Context(), text)
	if err != nil {
		d.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			d.Fatal(err)
		}
		said = append(said, line)
	}
	if err := rows.Err(); err != nil {
		d.Fatalf("%s: %v", text, err)
	}
	return said
}
