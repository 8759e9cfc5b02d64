package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

// BenchmarkCreate is the whole program as it is built, from the socket to the durable
// row, beside a handler that parses and writes the same JSON and stores nothing. Each
// server is a process of its own.
func BenchmarkCreate(b *testing.B) {
	program, request := build(b), fmt.Sprintf(post, len(body), body)
	b.Run("server=echo", func(b *testing.B) {
		exchangeAll(b, bareServer(b), request, http.StatusCreated)
	})
	b.Run("server=sqlite", func(b *testing.B) {
		exchangeAll(b, builtServer(b, program, "sqlite:"+b.TempDir()+"/links.db", ""), request, http.StatusCreated)
	})
	b.Run("server=postgres", func(b *testing.B) {
		s := builtServer(b, program, testenv.StartPostgres(b).URL, testenv.StartRedis(b).URL)
		exchangeAll(b, s, request, http.StatusCreated)
	})
}

// BenchmarkRedirect follows one link that is in the cache, beside a handler that
// always answers with the same redirect.
func BenchmarkRedirect(b *testing.B) {
	const get = "GET /alias HTTP/1.1\r\nHost: sho.rt\r\n\r\n"
	program := build(b)
	b.Run("server=echo", func(b *testing.B) {
		exchangeAll(b, bareServer(b), get, http.StatusFound)
	})
	b.Run("server=keypool", func(b *testing.B) {
		s := builtServer(b, program, "sqlite:"+b.TempDir()+"/links.db", "")
		withAlias := `{"url":"` + target + `","alias":"alias"}`
		if err := once(s.addr, fmt.Sprintf(post, len(withAlias), withAlias), http.StatusCreated); err != nil {
			b.Fatal(err)
		}
		exchangeAll(b, s, get, http.StatusFound)
	})
}

// bareVariable makes the test binary a bare server on the address that it holds.
const bareVariable = "KEYPOOL_BENCH_BARE"

// serveBare is what Keypool is measured beside.
func serveBare(addr string) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
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
	e.GET("/:code", func(c echo.Context) error { return c.Redirect(http.StatusFound, target) })
	return e.Start(addr)
}

// server is a process under load.
type server struct {
	addr string
	cmd  *exec.Cmd
}

func bareServer(b *testing.B) *server {
	b.Helper()
	s := &server{addr: freeAddr(b), cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), bareVariable+"="+s.addr)
	s.start(b)
	return s
}

// build gives the path of cmd/shortener, built as make does it.
func build(b *testing.B) (program string) {
	b.Helper()
	program = b.TempDir() + "/shortener"
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "keypool/cmd/shortener")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return program
}

// builtServer is a server with its default settings, but for the ports.
func builtServer(b *testing.B, program, database, redisURL string) *server {
	b.Helper()
	s := &server{addr: freeAddr(b), cmd: exec.Command(program, "--log-level=error")}
	s.cmd.Env = append(os.Environ(), "LISTEN_ADDR="+s.addr, "ADMIN_ADDR=127.0.0.1:0", "DATABASE_URL="+database, "REDIS_URL="+redisURL)
	s.start(b)
	return s
}

func freeAddr(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts the process, waits until it listens, and has it stopped at the end.
func (s *server) start(b *testing.B) {
	b.Helper()
	s.cmd.Stdout, s.cmd.Stderr = os.Stderr, os.Stderr
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended, which Wait tells
		_ = s.cmd.Wait()                          // the bare server knows no orderly end
	})
	deadline := time.After(10 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); ; {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick:
		case <-deadline:
			b.Fatal(err)
		}
	}
}

// processorTime is what the server has used of the processors. Unlike the rate it tells
// little of what else the machine does.
func (s *server) processorTime(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, proc_pid_stat(5), in ticks of 10 ms
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// exchangeAll sends the same request over and over on every connection.
func exchangeAll(b *testing.B, s *server, request string, status int) {
	b.Helper()
	b.SetParallelism(max(1, connections/runtime.GOMAXPROCS(0)))
	used := s.processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", s.addr)
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
	b.ReportMetric(float64(s.processorTime(b)-used)/float64(b.N), "server-ns/op")
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
