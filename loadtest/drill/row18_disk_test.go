//go:build drill

package drill

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// The disk with the SQLite file is full for a time, again and again.
func diskFullEmbedded(d *drill) {
	disk := smallDisk(d)
	database := filepath.Join(disk, "shortener.db")
	diskFull(d, disk, newServer(d, "DATABASE_URL=sqlite:"+database), sqliteCensus(database))
}

// The disk with the tables of Postgres is full for a time; the one with its log is not,
// for then Postgres would stop.
func diskFullPostgres(d *drill) {
	disk, postgres := smallDisk(d), testenv.StartPostgres(d)
	small := filepath.Join(disk, "tables")
	if err := errors.Join(os.Mkdir(small, 0o700), chownLike(small, postgres.Dir())); err != nil {
		d.Fatal(err)
	}
	execute(d, postgres.URL, "CREATE TABLESPACE small LOCATION '"+small+"'")
	server := newServer(d, "DATABASE_URL="+postgres.URL+"&default_tablespace=small")
	diskFull(d, disk, server, postgresCensus(postgres.URL))
}

// chownLike gives path to the owner of another file.
func chownLike(path, other string) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}

func diskFull(d *drill, disk string, server *service, census loadtest.Census) {
	d.Helper()
	server.start()
	load := newTraffic(d, server)
	for range d.times(5) {
		load.start(100)
		load.awaitMore(int64(50 + d.times(100)))
		remove := fill(d, disk)
		d.struck(1)
		// SQLite has a log of some megabytes to write to first, and Postgres half a page.
		limit := 2*time.Second + d.lasting(20*time.Second)
		if !happens(d, limit, func() bool { return load.recorder.Figures().Refused > 0 }) {
			d.Errorf("with a full disk no link is refused")
		}
		if !happens(d, limit, func() bool { return healthz(d, server) == http.StatusServiceUnavailable }) {
			d.Errorf("with a full disk healthz answers %d, want 503", healthz(d, server))
		}
		if !happens(d, limit, func() bool { _, ok := refused(d, server); return ok }) {
			d.Errorf("with a full disk no creation is answered with 503 and Retry-After")
		}
		pass(d, d.lasting(time.Second))
		load.stop()
		remove()
		load.start(100)
		load.awaitMore(1) // by itself
		load.stop()
	}
	end(d, census, []*service{server}, load)
}

// smallDisk mounts a file system of 16 MB, which takes root or a user namespace in which
// this process is.
func smallDisk(d *drill) string {
	d.Helper()
	dir, err := os.MkdirTemp("", "keypool-disk-") // TempDir is closed to the user of Postgres
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			d.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		d.Fatal(err)
	}
	if err := syscall.Mount("keypool-drill", dir, "tmpfs", 0, "size=16m,mode=0755"); err != nil {
		d.Fatalf("mount a small disk, which takes root: %v", err)
	}
	d.Cleanup(func() {
		// Lazily: what has files open there is about to end.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			d.Errorf("unmount the small disk: %v", err)
		}
	})
	return dir
}

// fill leaves no space on a disk until remove.
func fill(d *drill, disk string) (remove func()) {
	d.Helper()
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		d.Fatal(err)
	}
	for size := 64 << 10; size > 0; { // down to the last byte
		_, err = ballast.Write(make([]byte, size))
		if err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.Fatalf("fill the disk: %v", err)
	}
	return func() {
		if err := errors.Join(ballast.Close(), os.Remove(ballast.Name())); err != nil {
			d.Error(err)
		}
	}
}

func healthz(d *drill, s *service) int {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, s.url+"/healthz", http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	res, err := s.prober.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
