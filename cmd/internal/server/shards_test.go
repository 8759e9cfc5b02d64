package server

import (
	"strings"
	"testing"
)

// Without Citus, the command exits with one line that names Citus, and creates no
// tables.
func TestMigrateWithShardsRequiresCitus(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		status, out := command(t, url, "migrate", "--shards=4")
		if status == 0 || !strings.Contains(out, "Citus") || strings.Count(out, "\n") != 1 {
			t.Errorf("migrate --shards=4: exit status %d, %q", status, out)
		}
		if status, _ := command(t, url, "audit"); status == 0 {
			t.Error("the database has tables")
		}
	})
	for _, shards := range []string{"0", "-1", "x", "1025"} {
		if status, out := command(t, sqliteURL(t), "migrate", "--shards="+shards); status != 2 || !strings.Contains(out, "--shards") {
			t.Errorf("migrate --shards=%s: exit status %d, %q", shards, status, out)
		}
	}
}
