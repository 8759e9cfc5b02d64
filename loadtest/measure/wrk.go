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
	"time"

	"keypool/internal/testenv/machine"
	"keypool/loadtest"
)

const (
	// Connections is the number of connections that wrk opens. Each connection is one client.
	Connections = 64
	// wrkGrace is the time that wrk may take beyond its duration.
	wrkGrace = 20 * time.Second
)

//go:embed lua
var scripts embed.FS

// Wrk loads a server with wrk, a load generator that is not part of the project. The load is a closed
// loop: each client waits for its answer before it sends the next request.
//
// wrk detects a status of 400 or above, a broken connection and a timeout. It does not detect any other
// wrong answer, such as a 200 instead of a 302. The caller therefore checks one answer with [TryCreation] or
// [TryVisit] before the load, or counts the stored links after the load with Check.
type Wrk struct {
	URL      string
	Script   string // the name of a file in lua, without .lua: get, named, post, posts or random
	Args     []string
	Duration time.Duration // a whole number of seconds
	Refusals bool          // answers with a status of 400 or above are counted and are not an error
	// Check is called after the load, with the number of answers. If Check returns an error, Run returns this error. Check
	// may be nil.
	Check func(ctx context.Context, answers int64) error
}

// Subject returns a subject that measures the answers per second of the server under this load.
func (w Wrk) Subject(name string) Subject {
	return Subject{Name: name, Unit: PerSecond, Measure: func(ctx context.Context) (float64, error) {
		tally, err := w.Run(ctx)
		return tally.PerSecond(), err
	}}
}

// Run loads the server and blocks for the duration. If wrk is not installed, the error wraps
// [exec.ErrNotFound].
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

// script writes the script for wrk to a file. It appends report.lua, which all scripts share.
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

// Tally contains the counts that report.lua writes at the end of a load.
type Tally struct {
	Requests int64 `json:"requests"` // number of answers
	Micros   int64 `json:"micros"`   // duration of the load, in microseconds

	// Requests that failed, by cause.
	Connect int64 `json:"connect"`
	Read    int64 `json:"read"`
	Write   int64 `json:"write"`
	Timeout int64 `json:"timeout"`
	Status  int64 `json:"status"` // answers with a status of 400 or above
}

// PerSecond returns the number of answers per second.
func (t Tally) PerSecond() float64 { return float64(t.Requests) / float64(max(t.Micros, 1)) * 1e6 }

// parseTally reads the tally from the last line of the output of wrk. It returns an error if requests
// failed or if there were no answers. If refusals is true, an answer with a status of 400 or above is no
// failure.
func parseTally(out []byte, refusals bool) (t Tally, err error) {
	out = bytes.TrimSpace(out)
	last := out[bytes.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal(last, &t); err != nil {
		return Tally{}, fmt.Errorf("the last line of the output of wrk is not a tally: %w; the output:\n%s", err, out)
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

// TryCreation creates a link on a server. body is the JSON of the request. TryCreation returns an error if the creation
// is not acknowledged.
func TryCreation(ctx context.Context, server, body string) error {
	client := loadtest.NewClient(server, 0)
	defer client.Close()
	if o := client.Post(ctx, []byte(body)); o.State != loadtest.Acknowledged {
		return fmt.Errorf("the state of the creation %s is %s: %s", body, o.State, o.Detail)
	}
	return nil
}

// TryVisit requests the link of code. It returns an error if the server does not redirect to target.
func TryVisit(ctx context.Context, server, code, target string) error {
	client := loadtest.NewClient(server, 0)
	defer client.Close()
	status, location, err := client.Follow(ctx, code)
	if err == nil && (status != http.StatusFound || location != target) {
		err = fmt.Errorf("GET /%s: status %d with Location %q, want %d with %q", code, status, location, http.StatusFound, target)
	}
	return err
}
