//go:build drill

package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/testbed"
)

// stopLimit is what an orderly stop may take.
const stopLimit = 10 * time.Second

// service is a program with listeners, which can be ended and started again: the
// server, or the worker.
type service struct {
	d        *drill
	program  string
	dir      string // its working directory
	settings []string
	url      string // public; nobody listens there for a worker
	admin    string
	client   *loadtest.Client
	prober   *http.Client // for the admin listener

	*process // the latest run
}

// newServer makes a server with the settings ("NAME=value"); it does not run yet.
func newServer(d *drill, settings ...string) *service {
	d.Helper()
	return newService(d, "shortener", settings)
}

// newWorker makes a worker with the settings; it does not run yet.
func newWorker(d *drill, settings ...string) *service {
	d.Helper()
	return newService(d, "kgs", settings)
}

func newService(d *drill, program string, settings []string) *service {
	d.Helper()
	public, admin := freeAddr(d), freeAddr(d)
	s := &service{
		d:        d,
		program:  program,
		dir:      d.TempDir(),
		settings: append([]string{"LISTEN_ADDR=" + public, "ADMIN_ADDR=" + admin}, settings...),
		url:      "http://" + public,
		admin:    "http://" + admin,
		client:   loadtest.NewClient("http://"+public, 0),
		// A connection for each request: there is none to go stale in a kill.
		prober: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	d.Cleanup(s.client.Close)
	d.Cleanup(func() {
		if d.Failed() && s.process != nil {
			d.Logf("%s at %s said:\n%s", program, admin, s.tail())
		}
	})
	return s
}

// launch starts the program without waiting for it.
func (s *service) launch() {
	s.d.Helper()
	s.process = startProcess(s.d, s.d.command(s.dir, s.program, s.settings), filepath.Join(s.dir, "stderr"))
}

// start starts the program and waits until it says that it is ready.
func (s *service) start() {
	s.d.Helper()
	s.launch()
	s.awaitReady()
}

func (s *service) awaitReady() {
	s.d.Helper()
	await(s.d, patient, s.program+" is ready", func() bool {
		if s.ended() {
			s.d.Fatalf("%s ended at start with status %d", s.program, s.exit(patient))
		}
		res, err := s.get("/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// stop ends the program in order, and fails the test when that is not the end of it.
func (s *service) stop() {
	s.d.Helper()
	s.signal(syscall.SIGTERM)
	if status := s.exit(stopLimit); status != 0 {
		s.d.Errorf("%s ended with status %d after SIGTERM; it said:\n%s", s.program, status, s.tail())
	}
}

// restart stops the program in order and starts it again.
func (s *service) restart() {
	s.d.Helper()
	s.stop()
	s.start()
}

// get asks the admin listener.
func (s *service) get(path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.d.Context(), http.MethodGet, s.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return s.prober.Do(req)
}

// status is what a drill reads of /status.
type status struct {
	State    string `json:"state"`
	Pool     *int64 `json:"pool_keys"`
	Local    *int64 `json:"local_keys"`
	Capacity *int64 `json:"capacity_keys"`
	Breaker  string `json:"breaker"`
	Epoch    *int64 `json:"epoch"`
}

func (s *service) status() status {
	s.d.Helper()
	res, err := s.get("/status")
	if err != nil {
		s.d.Fatal(err)
	}
	defer res.Body.Close()
	var got status
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		s.d.Fatalf("GET /status: %v", err)
	}
	return got
}

// shipped is how many keys the program pushed since its start, as its metrics say, 0 while it
// does not answer: drills wait for keys of a worker that was just launched.
func (s *service) shipped() (keys float64) {
	metrics, err := testbed.AskMetrics(s.d.Context(), s.admin)
	if err != nil {
		return 0
	}
	for _, m := range metrics["kgs_keys_generated_total"].GetMetric() {
		keys += m.GetCounter().GetValue()
	}
	return keys
}

// metric is the value of a counter, named with its label, which is not in the answer before
// something is counted under it. No answer, or none with a counter of that name, fails the
// test: it must not pass for 0.
func (s *service) metric(name string) float64 {
	s.d.Helper()
	metrics, err := testbed.AskMetrics(s.d.Context(), s.admin)
	if err != nil {
		s.d.Fatal(err)
	}
	family, _, _ := strings.Cut(name, "{")
	if metrics[family] == nil {
		s.d.Fatalf("the metrics of %s have no %s", s.program, family)
	}
	for _, m := range metrics[family].GetMetric() {
		for _, l := range m.GetLabel() {
			if name == fmt.Sprintf("%s{%s=%q}", family, l.GetName(), l.GetValue()) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// local is how many keys are in the local batch.
func (st status) local() int64 {
	if st.Local == nil {
		return 0
	}
	return *st.Local
}

// full says that the pool is filled: the refill begins below nine tenths.
func (st status) full() bool {
	return st.State == "ok" && st.Pool != nil && st.Capacity != nil && *st.Pool >= *st.Capacity*9/10
}

// epoch is that of the pool, -1 while it is unknown.
func (st status) epoch() int64 {
	if st.Epoch == nil {
		return -1
	}
	return *st.Epoch
}

// accounts is what a drill reads of `audit --json`.
type accounts = testbed.Accounts

// audit closes the accounts and fails the test when they do not close.
func (s *service) audit() accounts {
	s.d.Helper()
	cmd := s.d.command(s.dir, "shortener", s.settings, "audit", "--json")
	text, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		s.d.Errorf("audit ended with status %d:\n%.4000s\n%s", failed.ExitCode(), text, failed.Stderr)
	} else if err != nil {
		s.d.Fatal(err)
	}
	var got accounts
	if err := json.Unmarshal(text, &got); err != nil {
		s.d.Fatalf("audit --json: %v in:\n%.4000s", err, text)
	}
	s.d.audited(got)
	s.d.Logf("audit: linked %d, abandoned %v", got.Linked, got.Abandoned)
	return got
}
