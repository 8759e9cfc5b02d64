package app

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"time"

	"keypool/internal/testenv"

	"github.com/labstack/echo/v4"
)

// connections is how many clients a benchmark has at once, each on a connection that
// stays open.
const connections = 64

const (
	target = "https://go.dev/doc/effective_go?from=benchmark"
	body   = `{"url":"` + target + `"}`
	post   = "POST /shorten HTTP/1.1\r\nHost: sho.rt\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
)

// BenchmarkCreate is the whole program, from the socket to the durable row, beside a
// handler that parses and writes the same JSON and stores nothing.
func BenchmarkCreate(b *testing.B) {
	request := fmt.Sprintf(post, len(body), body)
	b.Run("server=echo", func(b *testing.B) {
		e := echo.New()
		e.POST("/shorten", func(c echo.Context) error {
			var v struct {
				URL string `json:"url"`
			}
			if err := c.Bind(&v); err != nil {
				return err
			}
			return c.JSON(http.StatusCreated, map[string]string{
				"code": "fdMx0H", "short_url": "http://sho.rt/fdMx0H", "url": v.URL, "created_at": "2026-11-21T08:48:17.724315Z",
			})
		})
		exchangeAll(b, bareServer(b, e), request, http.StatusCreated)
	})
	b.Run("server=sqlite", func(b *testing.B) {
		exchangeAll(b, benchServer(b, "sqlite:"+b.TempDir()+"/links.db", ""), request, http.StatusCreated)
	})
	b.Run("server=postgres", func(b *testing.B) {
		addr := benchServer(b, testenv.StartPostgres(b).URL, testenv.StartRedis(b).URL)
		exchangeAll(b, addr, request, http.StatusCreated)
	})
}

// BenchmarkRedirect follows one link that is in the cache, beside a handler that
// always answers with the same redirect.
func BenchmarkRedirect(b *testing.B) {
	const get = "GET /alias HTTP/1.1\r\nHost: sho.rt\r\n\r\n"
	b.Run("server=echo", func(b *testing.B) {
		e := echo.New()
		e.GET("/:code", func(c echo.Context) error { return c.Redirect(http.StatusFound, target) })
		exchangeAll(b, bareServer(b, e), get, http.StatusFound)
	})
	b.Run("server=keypool", func(b *testing.B) {
		addr := benchServer(b, "sqlite:"+b.TempDir()+"/links.db", "")
		withAlias := `{"url":"` + target + `","alias":"alias"}`
		if err := once(addr, fmt.Sprintf(post, len(withAlias), withAlias), http.StatusCreated); err != nil {
			b.Fatal(err)
		}
		exchangeAll(b, addr, get, http.StatusFound)
	})
}

func bareServer(b *testing.B, e *echo.Echo) (addr string) {
	b.Helper()
	server := httptest.NewServer(e)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// benchServer is a server with its default settings, but for the ports.
func benchServer(b *testing.B, database, redisURL string) (addr string) {
	b.Helper()
	s := settings(b, database, redisURL)
	s.PoolCapacity, s.BatchMax = 1_000_000, 100_000
	p, err := StartServer(b.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Stop(); err != nil {
			b.Error(err)
		}
	})
	return p.Addr().String()
}

// exchangeAll sends the same request over and over on every connection.
func exchangeAll(b *testing.B, addr, request string, status int) {
	b.Helper()
	b.SetParallelism(max(1, connections/runtime.GOMAXPROCS(0)))
	used := processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		for reader := bufio.NewReader(conn); pb.Next(); {
			if err := exchange(conn, reader, request, status); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
}

// processorTime is what this process, client and server, has used of the processors.
// Unlike the rate it tells little of what else the machine does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func once(addr, request string, status int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchange(conn, bufio.NewReader(conn), request, status)
}

func exchange(w io.Writer, r *bufio.Reader, request string, status int) error {
	if _, err := io.WriteString(w, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != status {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
