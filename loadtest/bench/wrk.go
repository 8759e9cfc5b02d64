package bench

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
	"path/filepath"
	"strconv"
	"time"

	"keypool/internal/testenv/machine"
)

// connections is how many clients wrk plays, each on a connection that stays open.
const connections = 64

// wrkGrace is how much longer than told wrk may take.
const wrkGrace = 20 * time.Second

//go:embed lua
var scripts embed.FS

// wrk is one way to load a server.
type wrk struct {
	url    string
	script string // its name in lua, without .lua
	args   []string
	// check, if any, is told after a run how many answers there were.
	check func(ctx context.Context, answers int64) error
}

// subject is the server under this load, in answers a second.
func (r *run) wrk(name string, w wrk) subject {
	return subject{name: name, unit: rate, measure: func(ctx context.Context) (float64, error) {
		tally, err := r.load(ctx, w)
		if err != nil {
			return 0, err
		}
		if w.check != nil {
			if err := w.check(ctx, tally.Requests); err != nil {
				return 0, err
			}
		}
		return tally.perSecond(), nil
	}}
}

// load runs wrk for r.Each.
func (r *run) load(ctx context.Context, w wrk) (tally, error) {
	program, err := machine.LookPath("wrk")
	if err != nil {
		return tally{}, err
	}
	script, err := r.script(w.script)
	if err != nil {
		return tally{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Each+wrkGrace)
	defer cancel()
	args := []string{
		"-t1", "-c" + strconv.Itoa(connections), "-d" + strconv.Itoa(int(r.Each.Seconds())) + "s",
		"-s", script, w.url, "--",
	}
	cmd := exec.CommandContext(ctx, program, append(args, w.args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return tally{}, fmt.Errorf("wrk: %w; it said:\n%s", err, out)
	}
	return parseTally(out)
}

// script writes the script for wrk, together with what all of them end with.
func (r *run) script(name string) (path string, err error) {
	own, err := scripts.ReadFile("lua/" + name + ".lua")
	if err != nil {
		return "", err
	}
	report, err := scripts.ReadFile("lua/report.lua")
	if err != nil {
		return "", err
	}
	path = filepath.Join(r.dir, name+".lua")
	return path, os.WriteFile(path, append(own, report...), 0o600)
}

// tally is what our scripts let wrk write at the end.
type tally struct {
	Requests int64 `json:"requests"` // answers
	Micros   int64 `json:"micros"`

	Connect int64 `json:"connect"`
	Read    int64 `json:"read"`
	Write   int64 `json:"write"`
	Timeout int64 `json:"timeout"`
	Status  int64 `json:"status"` // of 400 and above
}

func (t tally) perSecond() float64 { return float64(t.Requests) / float64(t.Micros) * 1e6 }

// parseTally finds the tally in the last line of what wrk wrote; one with failures in it, or
// of nothing, is an error.
func parseTally(out []byte) (tally, error) {
	out = bytes.TrimSpace(out)
	last := out[bytes.LastIndexByte(out, '\n')+1:]
	var t tally
	if err := json.Unmarshal(last, &t); err != nil {
		return tally{}, fmt.Errorf("wrk wrote no tally: %w; it said:\n%s", err, out)
	}
	if t.Requests <= 0 || t.Micros <= 0 {
		return tally{}, errors.New("wrk got no answers")
	}
	if failures := t.Connect + t.Read + t.Write + t.Timeout + t.Status; failures > 0 {
		return tally{}, fmt.Errorf("%d of wrk's requests failed: %+v", failures, t)
	}
	return t, nil
}

// exchange is one request and the answer that it must have. wrk tells a 200 from a 404, but
// not from a 302: whatever is loaded answers such a request first.
type exchange struct {
	method, url string
	header      http.Header
	body        string
	status      int
	location    string // "" when it does not matter
}

// probeTimeout bounds one exchange.
const probeTimeout = 10 * time.Second

// try makes the exchange and fails when the answer is another one.
func (e exchange) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, e.method, e.url, bytes.NewBufferString(e.body))
	if err != nil {
		return err
	}
	for name, values := range e.header {
		req.Header[name] = values
	}
	req.Close = true
	res, err := http.DefaultTransport.RoundTrip(req) // goes where no redirect points
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != e.status || (e.location != "" && res.Header.Get("Location") != e.location) {
		return fmt.Errorf("%s %s: %s to %q, want %d to %q",
			e.method, e.url, res.Status, res.Header.Get("Location"), e.status, e.location)
	}
	return nil
}
