package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// StartedClient exports connect to the tests in package testenv_test.
func StartedClient(t testing.TB, s *Server) *redis.Client { return connect(t, s.URL) }

func TestClaimSkipsRedisDatabasesWithForeignData(t *testing.T) {
	t.Parallel()
	server := StartRedis(t, "--databases", "3")
	registry := connect(t, server.URL)
	foreign := connect(t, server.URL+"/1")
	if err := foreign.Set(t.Context(), "theirs", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if db, err := claim(t.Context(), registry); db != 2 || err != nil {
		t.Fatalf("claimed database %d, %v; want 2, the only empty database", db, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if db, err := claim(short, registry); err == nil {
		t.Errorf("claimed database %d although none is free", db)
	}
	if n := foreign.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("the foreign database has %d keys, want 1", n)
	}
}

func TestClaimEmptiesRedisDatabaseOfKilledTest(t *testing.T) {
	t.Parallel()
	server := StartRedis(t, "--databases", "2")
	registry := connect(t, server.URL)
	db, err := claim(t.Context(), registry)
	if err != nil {
		t.Fatal(err)
	}
	left := connect(t, server.URL+"/1")
	if err := left.Set(t.Context(), "left", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := release(t.Context(), registry, db); err != nil { // has the same effect as the expiry of the claim
		t.Fatal(err)
	}
	if again, err := claim(t.Context(), registry); again != db || err != nil {
		t.Fatalf("claimed %d, %v; want %d", again, err, db)
	}
	if n := left.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the database contains %d keys of the previous test", n)
	}
}
