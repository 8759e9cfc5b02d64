package web

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// connections is how many clients a benchmark has at once.
const connections = 64

// The ratio of the two is the bar: a redirect from the cache, at least 0.9.
func BenchmarkRedirect(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		e := echo.New()
		e.GET("/:code", func(c echo.Context) error { return c.Redirect(http.StatusFound, "https://go.dev/doc") })
		benchmark(b, e, "GET /abc HTTP/1.1\r\nHost: sho.rt\r\n\r\n", http.StatusFound)
	})
	b.Run("keypool", func(b *testing.B) {
		h := newBenchmarked(b)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/shorten", strings.NewReader(`{"url":"https://go.dev/doc","alias":"abc"}`))
		r.Header.Set("Content-Type", mediaJSON)
		if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
			b.Fatal(w.Code, w.Body)
		}
		benchmark(b, h, "GET /abc HTTP/1.1\r\nHost: sho.rt\r\n\r\n", http.StatusFound)
	})
}

// The ratio of the two is the bar: a durable creation, at least 0.7.
func BenchmarkCreate(b *testing.B) {
	const body = `{"url":"https://go.dev/doc/effective_go?from=benchmark"}`
	post := fmt.Sprintf("POST /shorten HTTP/1.1\r\nHost: sho.rt\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.Run("bare", func(b *testing.B) {
		e := echo.New()
		e.POST("/shorten", func(c echo.Context) error {
			var v struct {
				URL string `json:"url"`
			}
			if err := c.Bind(&v); err != nil {
				return err
			}
			return c.JSON(http.StatusCreated, answer{Code: "abc", ShortURL: "http://sho.rt/abc", URL: v.URL})
		})
		benchmark(b, e, post, http.StatusCreated)
	})
	b.Run("sqlite", func(b *testing.B) { benchmark(b, newBenchmarked(b), post, http.StatusCreated) })
}

func newBenchmarked(b *testing.B) *echo.Echo {
	b.Helper()
	service, _ := newService(b, nil)
	return NewPublic(PublicConfig{Service: service})
}

// benchmark sends the same request over and over on connections that stay open.
func benchmark(b *testing.B, h http.Handler, request string, status int) {
	b.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(h, slog.New(slog.DiscardHandler))
	server.Start()
	b.Cleanup(server.Close)
	b.ReportAllocs()
	b.SetParallelism(max(1, connections/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
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
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
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
