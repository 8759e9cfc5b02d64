package fault

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const (
	noOOM       = "no out-of-memory kill"
	connects    = "others connect"
	logsFiles   = "exhaustion logged"
	stillServes = "the server goes on"
)

// crowdMemory is the memory of the control group in row 26.
const crowdMemory = 128 << 20

// crowdRows returns the fault rows in which a client opens very many connections.
func crowdRows() []row {
	return []row{
		{
			Name: "fault/26", Title: "10,000 idle or very slow connections to a server with 128 MiB", Alone: true,
			Summary: "A server runs in a control group of the kernel (cgroup) with 128 MiB. One client opens 10,000 connections. When the server closes a connection, the client opens it again: ten seconds later if the server refused the connection, and at once otherwise. " +
				"On a third of the connections the client sends nothing. On another third it sends a header that never ends. On the last third it sends requests and reads the answers at a byte per second.",
			Run: inject(crowded), Controls: []experiment.Control{{Settings: []string{"MAX_CONNECTIONS=1000000", "MAX_CONNECTIONS_PER_ADDRESS=1000000"}, Refutes: noOOM}},
			Claims: theLinks(
				observed(noOOM, "The kernel does not kill the server for lack of memory."),
				served(available, "At least 99 % of the creations of another client are acknowledged.", 99),
				uninterrupted(connects, "requests without an answer", "Another client, which opens a connection for each request, gets an answer to at least 99 % of its requests."),
				observed(recovers, "After the client has closed its connections, the server has at most 50 more open connections (http_connections) than before the client opened its connections."),
			),
		},
		{
			Name: "fault/26b", Title: "no file descriptor left",
			Summary: "A server may open at most 100 files, and its limits on connections are too high to have an effect. A client opens 300 connections and closes them later.",
			Run:     inject(noFiles), Controls: without(logsFiles, "accept-warning"),
			Claims: theLinks(
				observed(logsFiles, "The server logs a warning that it cannot accept connections."),
				observed(stillServes, "The server keeps running."),
				observed(recovers, "After the client has closed its connections, the server answers new connections again without intervention."),
			),
		},
	}
}

func crowded(r *run) {
	group := lab.MemoryCgroup(r, crowdMemory)
	r.embedded("MAX_CONNECTIONS_PER_ADDRESS=200") // about half of the default of MAX_CONNECTIONS with this memory
	server := r.server()
	server.Prefix = group.Run()
	server.Start()
	load := r.start(server, 50)
	load.AwaitMore(10)
	before := server.Counter("http_connections")

	crowd := openCrowd(r, server, 10_000)
	alive := func() bool { return group.Kills() == 0 && !server.Ended() }
	lab.Wait(r, patient, "every connection was tried, or the server has ended", func() bool { return crowd.tried.Load() >= crowd.size || !alive() })
	r.strike(1)
	asked, unanswered := 0, 0
	for began := time.Now(); alive() && (time.Since(began) < r.Lasting(60*time.Second) || asked < 50); asked++ {
		if err := askOnce(r, server); err != nil {
			unanswered++
		}
		lab.Pause(r, 50*time.Millisecond)
	}
	r.must(noOOM, alive(), "the kernel killed %d processes; %s; the client tried %d connections, and %d of them are open",
		group.Kills(), running(server), crowd.tried.Load(), crowd.open.Load())
	r.saw(noOOM, true, "the kernel killed no process; the peak memory of the server was %d MiB; the client tried %d connections, and %d of them are open",
		server.Memory().Peak>>20, crowd.tried.Load(), crowd.open.Load())
	r.figure(connects, float64(asked/100), float64(unanswered), "%d of %d requests got no answer with status 200", unanswered, asked)
	refused := server.Counter("http_connections_refused_total", "limit", "address")
	if refused == 0 {
		r.Fatalf("the server refused no connection, so the fault row proves nothing")
	}
	crowd.stop()
	r.serve(load)
	r.becomes(recovers, "the client had closed its connections and the load had ended", "the server has at most 50 more connections than before the fault", func() bool { return server.Counter("http_connections") <= before+50 })
	r.end(server)
}

// askOnce requests /healthz on a new connection.
func askOnce(r *run, server *lab.Program) error {
	client := loadtest.NewClient(server.Public, 5*time.Second)
	defer client.Close()
	return client.Healthy(r.Context())
}

func noFiles(r *run) {
	r.embedded("MAX_CONNECTIONS=1000000", "MAX_CONNECTIONS_PER_ADDRESS=1000000")
	server := r.server()
	server.Prefix = []string{"/bin/sh", "-c", `ulimit -n 100 && exec "$@"`, "sh"}
	server.Start()
	load := r.start(server, 50)
	load.AwaitMore(10)
	crowd := openCrowd(r, server, 300)
	lab.Wait(r, patient, "every connection was tried", func() bool { return crowd.tried.Load() >= crowd.size })
	r.strike(1)
	logged := lab.Happens(r, 10*time.Second, func() bool { return strings.Contains(server.Tail(), "http: Accept error") })
	r.saw(logsFiles, logged, "the log %s the text \"http: Accept error\"", either(logged, "contains", "does not contain"))
	r.must(stillServes, !server.Ended(), "%s", running(server))
	crowd.stop()
	r.stop(load)
	r.becomes(recovers, "the client had closed its connections and the load had ended", "a new connection is answered", func() bool { return askOnce(r, server) == nil })
	r.during(load, 50, time.Second)
	r.end(server)
}

// crowd is a client at another address with many connections to a server.
type crowd struct {
	size  int64
	tried atomic.Int64 // connections that the client has tried to open at least once
	open  atomic.Int64 // connections that are open now

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// retryCrowd is the time after which a crowd opens a refused connection again.
const retryCrowd = 10 * time.Second

// crowdAddress is the address of a crowd. All other clients have 127.0.0.1.
const crowdAddress = "127.0.0.2"

// openCrowd opens size connections to a server. When a connection ends, the crowd opens it again: after
// the time retryCrowd if the server refused the connection, and at once otherwise. All connections end
// with the run.
func openCrowd(r *run, server *lab.Program, size int) *crowd {
	ctx, cancel := context.WithCancel(r.Context())
	c := &crowd{size: int64(size), cancel: cancel}
	dialer := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(crowdAddress)}}
	address := strings.TrimPrefix(server.Public, "http://")
	for n := range size {
		c.ended.Go(func() {
			for again := false; ctx.Err() == nil; again = true {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				if !again {
					c.tried.Add(1)
				}
				opened := time.Now()
				if err == nil {
					c.open.Add(1)
					misuse(ctx, conn, n%3)
					c.open.Add(-1)
				}
				if time.Since(opened) < time.Second { // the server refused the connection
					pause(ctx, retryCrowd)
				}
			}
		})
	}
	r.Cleanup(c.stop)
	return c
}

// stop closes the connections.
func (c *crowd) stop() {
	c.cancel()
	c.ended.Wait()
}

// misuse uses a connection in one of three ways: it sends nothing, a header without an end, or requests whose answers it
// reads at a byte per second. It returns when the server closes the connection or ctx ends.
func misuse(ctx context.Context, conn net.Conn, way int) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the connection is of no further use
	defer func() {
		if stop() {
			_ = conn.Close() // the server has closed it
		}
	}()
	wait := time.Duration(0)
	switch way {
	case 1:
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 14<<10)) // if it fails, Read fails too
	case 2:
		wait = time.Second
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)                                               // if it fails, Read fails too
		_, _ = io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 50)) // if it fails, Read fails too
	}
	one := make([]byte, 1)
	for {
		if _, err := conn.Read(one); err != nil {
			return
		}
		pause(ctx, wait)
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
