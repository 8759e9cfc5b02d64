//go:build drill

package drill

import (
	"net/url"
	"time"

	"keypool/internal/testenv"
)

// Every fifth commit of links is carried out and its reply lost, in full or but for a
// few bytes.
func commitReplyLost(d *drill) {
	postgres := testenv.StartPostgres(d)
	proxy := newProxy(d, postgres.Addr)
	server := newServer(d, "DATABASE_URL="+through(d, proxy, postgres.URL))
	server.start()
	load := newTraffic(d, server)
	for _, keep := range []int{0, 5} {
		proxy.lose(5, keep, statementWith("INSERT INTO links"))
		load.during(200, 2*time.Second+d.lasting(8*time.Second))
	}
	proxy.lose(1, 0, nil)
	load.start(100)
	load.awaitMore(1)
	load.stop()
	happened(d, proxy.lost(), "reply to a commit lost")
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}

// through is a database's URL that leads to it by way of a proxy.
func through(d *drill, p *proxy, database string) string {
	d.Helper()
	u, err := url.Parse(database)
	if err != nil {
		d.Fatal(err)
	}
	u.Host = p.addr
	return u.String()
}
