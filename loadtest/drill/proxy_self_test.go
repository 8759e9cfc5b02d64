//go:build drill

package drill

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

// What a proxy loses has happened; what comes before and after it gets through.
func TestProxyLosesRepliesOfScripts(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	p := newProxy(t, server.Addr)
	client, direct := redisClient(t, p.addr), redisClient(t, server.Addr)
	p.lose(2, 0, scriptWith("INCR"))
	count := redis.NewScript("return redis.call('INCR', KEYS[1])")
	read := redis.NewScript("return redis.call('GET', KEYS[1])")
	for n := 1; n <= 6; n++ {
		err := count.Run(t.Context(), client, []string{"n"}).Err()
		if lost := n%2 == 0; lost != (err != nil) {
			t.Errorf("run %d: error %v, want one: %t", n, err, lost)
		}
		if got, err := read.Run(t.Context(), client, []string{"n"}).Int(); got != n || err != nil {
			t.Errorf("run %d: counted %d, %v", n, got, err)
		}
	}
	if p.lost() != 3 {
		t.Errorf("%d replies are said to be lost, want 3", p.lost())
	}
	p.away()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("the server answers through a proxy that is away")
	}
	other := testenv.StartRedis(t)
	p.lead(other.Addr)
	if err := client.Set(t.Context(), "here", 1, 0).Err(); err != nil {
		t.Error(err)
	}
	if n := direct.Exists(t.Context(), "here").Val(); n != 0 {
		t.Error("the proxy still leads to the first server")
	}
}

func TestProxyLosesRepliesOfStatements(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	p := newProxy(t, server.Addr)
	p.lose(2, 3, statementWith("INSERT INTO links"))
	cfg, err := pgx.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	direct := postgresConn(t, cfg)
	if _, err := direct.Exec(t.Context(), "CREATE TABLE links (n int)"); err != nil {
		t.Fatal(err)
	}
	through := cfg.Copy()
	through.Port = portOf(t, p.addr)
	for n := 1; n <= 4; n++ {
		conn := postgresConn(t, through)
		var one int
		if err := conn.QueryRow(t.Context(), "SELECT $1::int", 1).Scan(&one); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Exec(t.Context(), "INSERT INTO links VALUES ($1)", n)
		if lost := n%2 == 0; lost != (err != nil) {
			t.Errorf("insert %d: error %v, want one: %t", n, err, lost)
		}
		var rows int
		if err := direct.QueryRow(t.Context(), "SELECT count(*) FROM links").Scan(&rows); rows != n || err != nil {
			t.Errorf("after insert %d there are %d rows, %v", n, rows, err)
		}
	}
	if p.lost() != 2 {
		t.Errorf("%d replies are said to be lost, want 2", p.lost())
	}
}
