//go:build compose

package deploy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	buildTimeout = 20 * time.Minute // the first build pulls images and compiles the programs
	readyTimeout = 3 * time.Minute
	downTimeout  = 2 * time.Minute
)

// project is one instance of the services in docker-compose.yml, with its own project name and ports. A further file of
// deploy/compose may change the services.
type project struct {
	t       *testing.T
	ctx     context.Context
	name    string   // the Compose project name, unique to this test
	compose []string // the Compose command, version 2 or 1
	env     []string

	server1, server2, prometheus string // base URLs
}

func TestComposeServicesWorkTogether(t *testing.T) {
	p := newProject(t)
	p.up()
	p.checkSharing()
	if status, _ := p.follow(p.server1, "no-such-link"); status != http.StatusNotFound {
		t.Errorf("GET of an unknown code has status %d, want 404", status)
	}
	p.await("every container is healthy", p.healthy(6))
	p.await("Prometheus scrapes every process", p.targetsUp)
	p.await("Prometheus evaluates every rule", p.rulesHealthy)
	p.await("the pool is full in Prometheus", p.poolFilled)
}

// The pool has three lists. The test kills the master of one list.
func TestComposeServersCreateLinksAfterRedisMasterIsKilled(t *testing.T) {
	p := newProject(t, "deploy/compose/redis-cluster.yml")
	p.up()
	p.checkSharing()
	p.await("every container is healthy", p.healthy(11))
	p.await("the pool is full in Prometheus", p.poolFilled)
	if err := p.run(p.ctx, "kill", "redis2"); err != nil {
		t.Fatal(err)
	}
	p.checkSharing()
}

// The links must be in volumes, so that they exist after a second start.
func TestComposeServersShareLinksOnCitus(t *testing.T) {
	p := newProject(t, "deploy/compose/citus.yml")
	p.up()
	code := p.checkSharing()
	p.await("every container is healthy", p.healthy(8))
	p.stop()
	p.up()
	p.checkLink(code)
	p.checkSharing()
}

// The first start creates a volume for a single Redis. The Redis Cluster of the second start must not use this volume.
func TestComposeRedisClusterReplacesSingleRedis(t *testing.T) {
	p := newProject(t)
	p.up()
	code := p.checkSharing()
	p.add("deploy/compose/redis-cluster.yml")
	p.up()
	p.checkLink(code)
	p.checkSharing()
	p.await("the pool is full in Prometheus", p.poolFilled)
}

// The order in which the containers of the cluster start decides their addresses. The test reverses the order, so that each
// server has another address after the second start.
func TestComposeRedisClusterStartsAgainWithOtherAddresses(t *testing.T) {
	p := newProject(t, "deploy/compose/redis-cluster.yml")
	order := []string{"redis", "redis2", "redis3", "redis4", "redis5", "redis6"}
	p.upInOrder(order)
	code := p.checkSharing()
	p.stop()
	slices.Reverse(order)
	p.upInOrder(order)
	p.checkLink(code)
	p.checkSharing()
	p.await("every container is healthy", p.healthy(11))
	p.await("the pool is full in Prometheus", p.poolFilled)
}

// target is the URL of the links that the tests create.
const target = "https://go.dev/doc/?from=compose"

// checkSharing creates a link on one server, follows it on the other server and returns its code.
func (p *project) checkSharing() (code string) {
	p.t.Helper()
	code = p.shorten(p.server1, target)
	p.checkLink(code)
	return code
}

// checkLink follows a link that checkSharing has created.
func (p *project) checkLink(code string) {
	p.t.Helper()
	if status, location := p.follow(p.server2, code); status != http.StatusFound || location != target {
		p.t.Errorf("the second server answers a link of the first server with status %d, Location %q; want 302, %q", status, location, target)
	}
}

// newProject returns a project with the services of docker-compose.yml. Each further file adds or changes services.
func newProject(t *testing.T, further ...string) *project {
	t.Helper()
	// An interrupt ends the context and not the process, so that the cleanup of an interrupted test removes its services.
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(cancel)
	ports := freePorts(t, 3)
	name := "keypool-test-" + strings.ToLower(rand.Text()[:8])
	p := &project{
		t: t, ctx: ctx, name: name, compose: composeCommand(t),
		env: append(os.Environ(), "COMPOSE_PROJECT_NAME="+name, "POSTGRES_PASSWORD=a/b@c?d#e%f:g h",
			"SHORTENER1_PORT="+ports[0], "SHORTENER2_PORT="+ports[1], "PROMETHEUS_PORT="+ports[2]),
		server1: "http://127.0.0.1:" + ports[0], server2: "http://127.0.0.1:" + ports[1],
		prometheus: "http://127.0.0.1:" + ports[2],
	}
	for _, file := range append([]string{"docker-compose.yml"}, further...) {
		p.add(file)
	}
	t.Cleanup(p.down)
	return p
}

// add lets a file add or change services.
func (p *project) add(file string) { p.compose = append(p.compose, "--file", file) }

// composeCommand returns the command of Compose: the Docker plugin (version 2), or the program
// docker-compose (version 1) if there is no plugin.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if path, err := exec.LookPath("docker-compose"); err == nil {
		return []string{path}
	}
	t.Fatal("neither `docker compose` nor docker-compose is installed")
	return nil
}

func (p *project) up() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, buildTimeout)
	defer cancel()
	if err := p.run(ctx, "up", "--detach", "--build"); err != nil {
		p.t.Fatalf("compose up: %v", err)
	}
	for _, server := range []string{p.server1, p.server2} {
		p.await(server+" is ready", func() error { return p.get(server+"/healthz", nil) })
	}
}

// upInOrder starts the given services one after another, and then the others.
func (p *project) upInOrder(services []string) {
	p.t.Helper()
	for _, service := range services {
		if err := p.run(p.ctx, "up", "--detach", "--no-deps", service); err != nil {
			p.t.Fatalf("compose up %s: %v", service, err)
		}
	}
	p.up()
}

// stop removes the containers and keeps the named volumes.
func (p *project) stop() {
	p.t.Helper()
	if err := p.run(p.ctx, "down"); err != nil {
		p.t.Fatalf("compose down: %v", err)
	}
}

func (p *project) down() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), downTimeout)
	defer cancel()
	if p.t.Failed() {
		if err := p.run(ctx, "logs", "--no-color", "--tail", "50"); err != nil {
			p.t.Errorf("compose logs: %v", err)
		}
	}
	if err := p.run(ctx, "down", "--volumes", "--remove-orphans"); err != nil {
		p.t.Errorf("compose down: %v", err)
	}
}

func (p *project) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, p.compose[0], slices.Concat(p.compose[1:], args)...)
	cmd.Dir = ".."
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = p.t.Output(), p.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C does not reach the child directly; ctx ends the child
	return cmd.Run()
}

// shorten creates a link and returns its code.
func (p *project) shorten(server, url string) string {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.ctx, http.MethodPost, server+"/shorten", strings.NewReader(string(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var link struct{ Code string }
	if err := json.NewDecoder(resp.Body).Decode(&link); resp.StatusCode != http.StatusCreated || err != nil || link.Code == "" {
		p.t.Fatalf("POST /shorten: %s, %v", resp.Status, err)
	}
	return link.Code
}

// follow returns the status and the Location header of a redirect. It does not follow the
// redirect.
func (p *project) follow(server, code string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, server+"/"+code, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

// healthy returns a check that succeeds if exactly want containers are healthy.
func (p *project) healthy(want int) func() error {
	return func() error {
		out, err := exec.CommandContext(p.ctx, "docker", "ps", "--format", "{{.Names}}: {{.Status}}",
			"--filter", "label=com.docker.compose.project="+p.name).Output()
		if err != nil {
			return err
		}
		if n := strings.Count(string(out), "(healthy)"); n != want {
			return fmt.Errorf("%d of %d containers are healthy:\n%s", n, want, out)
		}
		return nil
	}
}

func (p *project) targetsUp() error {
	var answer struct {
		Data struct {
			ActiveTargets []struct{ ScrapeURL, Health, LastError string }
		}
	}
	if err := p.get(p.prometheus+"/api/v1/targets?state=active", &answer); err != nil {
		return err
	}
	if n := len(answer.Data.ActiveTargets); n != 3 {
		return fmt.Errorf("Prometheus has %d targets, want two servers and a worker", n)
	}
	for _, target := range answer.Data.ActiveTargets {
		if target.Health != "up" {
			return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
		}
	}
	return nil
}

func (p *project) rulesHealthy() error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.get(p.prometheus+"/api/v1/rules", &answer); err != nil {
		return err
	}
	if len(answer.Data.Groups) == 0 {
		return errors.New("no rules are loaded")
	}
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				return fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	return nil
}

func (p *project) poolFilled() error {
	var answer struct {
		Data struct{ Result []any }
	}
	query := "/api/v1/query?query=keypool:pool_fill:ratio+%3E+0.9"
	if err := p.get(p.prometheus+query, &answer); err != nil {
		return err
	}
	if len(answer.Data.Result) == 0 {
		return errors.New("the pool is not full")
	}
	return nil
}

// get sends a GET request. It fails if the status of the response is not 200. If v is not nil, get decodes
// the JSON response into v.
func (p *project) get(url string, v any) error {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(body, v)
}

// await polls until check returns nil. It fails the test after readyTimeout.
func (p *project) await(what string, check func() error) {
	p.t.Helper()
	timeout := time.After(readyTimeout)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			p.t.Fatalf("interrupted while waiting for the condition %q: %v", what, err)
		case <-timeout:
			p.t.Fatalf("the condition %q is still false: %v", what, err)
		}
	}
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	ports := make([]string, n)
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:gocritic // each port stays open until all are found, so that the ports differ
		if _, ports[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	return ports
}
