package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// freshness is the time within which every server must use a change of a link, and must refuse a revoked token.
const freshness = time.Second

// owner sends requests of one token to several servers. Its methods may be called concurrently.
type owner struct {
	clients []*loadtest.Client // one for each server
	bearer  string
}

// ownerOf creates a token with the scopes create and edit, and returns an owner that sends requests of this token to the
// servers.
func (r *run) ownerOf(name string, servers ...*lab.Program) *owner {
	bearer := r.mustToken("create", "--name", name, "--scope", "create,edit", "--rate", "off")
	o := &owner{bearer: strings.TrimSpace(bearer)}
	for _, s := range servers {
		o.clients = append(o.clients, s.Client)
	}
	return o
}

// tokenCommand returns the command `shortener token` with the arguments, on the database of the links.
func (r *run) tokenCommand(args ...string) *exec.Cmd {
	return lab.Command(r, "shortener", r.TempDir(), r.settings, append([]string{"token"}, args...)...)
}

// mustToken runs a tokenCommand and returns its output. It ends the run if the command fails.
func (r *run) mustToken(args ...string) string {
	var stderr strings.Builder
	command := r.tokenCommand(args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		r.Fatalf("`token %s` failed: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// send sends a request to the server with the given index. The body is JSON, or "" for a request without a body.
func (o *owner) send(ctx context.Context, server int, method, path, body string) (loadtest.Answer, error) {
	return o.sendWith(ctx, server, method, path, http.Header{}, body)
}

// sendWith is like send, but also sends the given header fields.
func (o *owner) sendWith(ctx context.Context, server int, method, path string, header http.Header, body string) (loadtest.Answer, error) {
	header.Set("Authorization", "Bearer "+o.bearer)
	return o.clients[server].Send(ctx, method, path, header, []byte(body))
}

// any returns the index of a random server.
func (o *owner) any() int { return rand.IntN(len(o.clients)) } //nolint:gosec // the random number need not be secret

// ownedLink contains some members of a link in an answer of the API.
type ownedLink struct {
	Code      string `json:"code"`
	URL       string `json:"url"`
	DeletedAt string `json:"deleted_at"`
}

// linkIn returns the link in an answer. It returns an error if the status of the answer is not want.
func linkIn(a loadtest.Answer, want int) (l ownedLink, err error) {
	if a.Status != want {
		return l, fmt.Errorf("status %d, want %d: %.200s", a.Status, want, a.Body)
	}
	err = json.Unmarshal(a.Body, &l)
	return l, err
}

// object returns a JSON object with the given members. The values are strings and booleans, so the encoding cannot fail.
func object(members map[string]any) string {
	b, _ := json.Marshal(members) //nolint:errchkjson // the encoding cannot fail
	return string(b)
}

// beside calls do in a goroutine. The context of do ends when stop is called or when the run ends. The function stop
// waits until do has returned.
func (r *run) beside(do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	r.Cleanup(stop)
	return stop
}

// briefly waits for a random time below limit. It returns false if ctx ends first.
func briefly(ctx context.Context, limit time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rand.N(limit)): //nolint:gosec // the random number need not be secret
		return true
	}
}

// twoServers starts two servers and waits until they are ready.
func (r *run) twoServers() []*lab.Program {
	servers := launch(2, func() *lab.Program { return r.server() })
	each(servers, awaitReady)
	return servers
}

// strikeInTurn kills one program with SIGKILL and starts it again. The number n selects the program: first the servers
// in turn and then, if the links are in PostgreSQL, PostgreSQL. strikeInTurn calls away before it kills PostgreSQL, and
// back when PostgreSQL is available again.
func (r *run) strikeInTurn(n int, servers []*lab.Program, away, back func()) {
	targets := len(servers)
	if r.postgres != nil {
		targets++
	}
	if i := n % targets; i < len(servers) {
		servers[i].Kill()
		servers[i].Start()
	} else {
		away()
		r.postgres.Kill()
		r.postgres.Restart()
		back()
	}
	r.strike(1)
}

// onlyPostgres makes the programs use a PostgreSQL and no Redis.
func (r *run) onlyPostgres() {
	r.postgres = lab.Postgres(r, manyConnections)
	r.store(r.postgres.URL)
}
