package lab

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// The proxy loses every second reply to the script that contains INCR, and the server runs this script
// each time. The replies to the script that contains GET reach the client.
func TestProxyLosesEverySecondReplyToScript(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		server := Redis(r)
		p := Proxy(r, server.Addr)
		client, direct := RedisClient(r, "redis://"+p.Addr), RedisClient(r, server.URL)
		p.Lose(2, 0, ScriptWith("INCR"))
		count := redis.NewScript("return redis.call('INCR', KEYS[1])")
		read := redis.NewScript("return redis.call('GET', KEYS[1])")
		for n := 1; n <= 6; n++ {
			err := count.Run(t.Context(), client, []string{"n"}).Err()
			if lost := n%2 == 0; lost != (err != nil) {
				t.Errorf("run %d: error %v, but the proxy must lose the reply to each second run", n, err)
			}
			if got, err := read.Run(t.Context(), client, []string{"n"}).Int(); got != n || err != nil {
				t.Errorf("after run %d, the counter is %d and the error is %v, want the counter %d", n, got, err, n)
			}
		}
		if p.Lost() != 3 {
			t.Errorf("Lost() = %d, want 3", p.Lost())
		}
		p.Away()
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Error("the server answers through a proxy that breaks connections")
		}
		other := Redis(r)
		p.Lead(other.Addr)
		if err := client.Set(t.Context(), "here", 1, 0).Err(); err != nil {
			t.Error(err)
		}
		if n := direct.Exists(t.Context(), "here").Val(); n != 0 {
			t.Error("the proxy still connects clients to the first server")
		}
	})
}

func TestProxyLosesEverySecondReplyToStatement(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		server := Postgres(r)
		p := Proxy(r, server.Addr)
		p.Lose(2, 3, StatementWith("INSERT INTO all_links"))
		Execute(r, server.URL, "CREATE TABLE all_links (n int)")
		through, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		through.Host = p.Addr
		for n := 1; n <= 4; n++ {
			err := query(t.Context(), through.String(), func(ctx context.Context, conn *pgx.Conn) error {
				var one int
				if err := conn.QueryRow(ctx, "SELECT $1::int", 1).Scan(&one); err != nil {
					t.Errorf("statement %d, whose reply must not be lost: %v", n, err)
				}
				_, err := conn.Exec(ctx, "INSERT INTO all_links VALUES ($1)", n)
				return err
			})
			if lost := n%2 == 0; lost != (err != nil) {
				t.Errorf("insert %d: error %v, but the proxy must lose the reply to each second insert", n, err)
			}
			if rows, err := CountLinks(t.Context(), server.URL); rows != int64(n) || err != nil {
				t.Errorf("after insert %d: %d rows, error %v", n, rows, err)
			}
		}
		if p.Lost() != 2 {
			t.Errorf("Lost() = %d, want 2", p.Lost())
		}
	})
}
