package measure

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"keypool/internal/testenv/machine"
)

const (
	// Connections is how many clients wrk plays, each on one connection.
	Connections = 64
	// wrkGrace is how much longer than its duration wrk may take.
	wrkGrace = 20 * time.Second
	// exchangeTimeout bounds one exchange.
	exchangeTimeout = 10 * time.Second
)

//go:embed lua
var scripts embed.FS

// Wrk loads a server with wrk, a load generator that is not part of the project: a closed
// loop, in which each client waits for its answer before it sends the next request.
//
// wrk sees a status of 400 or above, a broken connection and a time-out. It cannot tell a 302
// from a 200, so the caller checks that by an [Exchange] before the load, or by counting what
// the load left behind (Check).
type Wrk struct {
	URL      string
	Script   string // the name of a file in lua, without .lua: get, post, posts or random
	Args     []string
	Duration time.Duration // in whole seconds
	Refusals bool          // answers of 400 and above are counted and are not an error
	// Check gets the number of answers after the run. Its error makes the run one. May be nil.
	Check func(ctx context.Context, answers int64) error
}

// Subject is the server under this load, in answers per second.
func (w Wrk) Subject(name string) Subject {
	return Subject{Name: name, Unit: PerSecond, Measure: func(ctx context.Context) (float64, error) {
		tally, err := w.Run(ctx)
		return tally.PerSecond(), err
	}}
}

// Run loads the server and blocks for the duration. The error wraps [exec.ErrNotFound] where
// wrk is not installed.
func (w Wrk) Run(ctx context.Context) (_ Tally, err error) {
	program, err := machine.LookPath("wrk")
	if err != nil {
		return Tally{}, err
	}
	script, err := w.script()
	if err != nil {
		return Tally{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(script)) }()
	limited, cancel := context.WithTimeout(ctx, w.Duration+wrkGrace)
	defer cancel()
	args := []string{
		"-t1", "-c" + strconv.Itoa(Connections), "-d" + strconv.Itoa(int(w.Duration.Seconds())) + "s",
		"-s", script, w.URL, "--",
	}
	out, err := exec.CommandContext(limited, program, append(args, w.Args...)...).CombinedOutput()
	if err != nil {
		return Tally{}, fmt.Errorf("wrk: %w; its output:\n%s", err, out)
	}
	tally, err := parseTally(out, w.Refusals)
	if err == nil && w.Check != nil {
		err = w.Check(ctx, tally.Requests)
	}
	return tally, err
}

// script writes the script for wrk, with the end that all scripts share.
func (w Wrk) script() (path string, err error) {
	own, err := scripts.ReadFile("lua/" + w.Script + ".lua")
	if err != nil {
		return "", err
	}
	end, err := scripts.ReadFile("lua/report.lua")
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "keypool-*.lua")
	if err != nil {
		return "", err
	}
	_, err = file.Write(append(own, end...))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// Tally is what the scripts make wrk write at its end.
type Tally struct {
	Requests int64 `json:"requests"` // answers
	Micros   int64 `json:"micros"`

	Connect int64 `json:"connect"`
	Read    int64 `json:"read"`
	Write   int64 `json:"write"`
	Timeout int64 `json:"timeout"`
	Status  int64 `json:"status"` // answers of 400 and above
}

// PerSecond is the number of answers per second, 0 for none.
func (t Tally) PerSecond() float64 { return float64(t.Requests) / float64(max(t.Micros, 1)) * 1e6 }

// parseTally reads the tally from the last line of the output. A tally with failures, or
// without answers, is an error. Refusals are failures unless they are allowed.
func parseTally(out []byte, refusals bool) (t Tally, err error) {
	out = bytes.TrimSpace(out)
	last := out[bytes.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal(last, &t); err != nil {
		return Tally{}, fmt.Errorf("wrk wrote no tally: %w; its output:\n%s", err, out)
	}
	if t.Requests <= 0 || t.Micros <= 0 {
		return Tally{}, errors.New("wrk received no answers")
	}
	failures := t.Connect + t.Read + t.Write + t.Timeout
	if !refusals {
		failures += t.Status
	}
	if failures > 0 {
		return Tally{}, fmt.Errorf("%d requests of wrk failed: %+v", failures, t)
	}
	return t, nil
}

// Exchange is one request and the answer that it must get. A request with a body is a POST of
// JSON, any other a GET.
type Exchange struct {
	url, body string
	status    int
	location  string // "": any
}

// Creation is a creation on a server, with body as JSON.
func Creation(server, body string) Exchange {
	return Exchange{url: server + "/shorten", body: body, status: http.StatusCreated}
}

// Visit follows a link of a server that leads to target.
func Visit(server, code, target string) Exchange {
	return Exchange{url: server + "/" + code, status: http.StatusFound, location: target}
}

// Try makes the exchange and returns an error when the answer is another one.
func (e Exchange) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	method := http.MethodGet
	if e.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url, strings.NewReader(e.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if location := res.Header.Get("Location"); res.StatusCode != e.status || (e.location != "" && location != e.location) {
		return fmt.Errorf("%s %s: %s with Location %q, want %d with %q", method, e.url, res.Status, location, e.status, e.location)
	}
	return nil
}
