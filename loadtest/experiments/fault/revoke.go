package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/lab"
)

const (
	refused401  = "revoked tokens refused"
	accepted    = "valid tokens accepted"
	refusalTime = "time until a revoked token is refused"
	revokeLimit = 10 * time.Second
)

// revokeRows returns the fault rows in which tokens are revoked.
func revokeRows() []row {
	claims := []claim{
		observed(refused401, "Every server that reaches the database refuses a revoked token, also after a restart of the server."),
		timed(refusalTime, "Every server that reaches the database refuses a revoked token within 1 s. "+
			"If a server does not reach the database, this time begins when the server reaches the database again."),
		observed(accepted, "Every server accepts every token that is not revoked, also while the server does not reach the database."),
	}
	reload := without(refused401, "token-reload")
	return []row{
		{
			Name: "fault/revoke", Title: "tokens revoked while servers are killed, SQLite",
			Summary: "A token is revoked while two servers run. Then one server is killed with SIGKILL, and another token is revoked before this server starts again.",
			Run:     inject(func(r *run) { r.embedded(); revokeBesideKills(r) }), Claims: claims, Controls: reload,
		},
		{
			Name: "fault/revokeb", Title: "tokens revoked while servers lose PostgreSQL",
			Summary: "A token is revoked while two servers run. Another token is revoked while a proxy breaks the connections between one server and PostgreSQL. " +
				"Then PostgreSQL is killed with SIGKILL, and a command that revokes a token fails.",
			Run: inject(revokeWithoutPostgres), Claims: claims, Controls: slices.Concat(reload, without(accepted, "token-memory")),
		},
	}
}

// check returns the status of a creation without a URL: 422 if the server accepts the token, and 401 if the server refuses
// the token. The server needs no database for this answer.
func (o *owner) check(r *run, server int) int {
	answer, err := o.send(r.Context(), server, http.MethodPost, "/shorten", "{}")
	r.Must(err)
	return answer.Status
}

// valid checks that the servers accept the token. It ends the run if a server refuses the token.
func (o *owner) valid(r *run, when string, servers ...int) {
	for _, server := range servers {
		status := o.check(r, server)
		r.must(accepted, status == http.StatusUnprocessableEntity, "%s, the server %d answered with status %d; the status 422 means that it accepts the token, and 401 that it refuses the token", when, server, status)
	}
}

// refused waits until the servers refuse the token, and returns the time at which they do. It ends
// the run if a server still accepts the token after revokeLimit.
func (o *owner) refused(r *run, when string, servers ...int) time.Time {
	refuses := func() bool {
		return !slices.ContainsFunc(servers, func(server int) bool { return o.check(r, server) != http.StatusUnauthorized })
	}
	ok := lab.Happens(r, revokeLimit, refuses)
	r.must(refused401, ok, "%s, the servers %v %s the token within %v", when, servers, either(ok, "refused", "did not all refuse"), revokeLimit)
	return time.Now()
}

// id returns the id of the token, which is a part of the bearer.
func (o *owner) id() string { return strings.Split(o.bearer, "_")[1] }

// revoke revokes the token and waits until the servers refuse the token. The command runs in the background, because it
// waits for a second after the revocation, and the servers must refuse the token within this second.
func (o *owner) revoke(r *run, when string, servers ...int) {
	var output strings.Builder
	command := r.tokenCommand("revoke", o.id())
	command.Stderr = &output
	r.Must(command.Start())
	refusedAt := o.refused(r, when, servers...)
	if err := command.Wait(); err != nil {
		r.Fatalf("%s, `token revoke` failed: %w: %s", when, err, output.String())
	}
	o.refused(r, when+" and the command has ended", servers...)
	r.took(refusalTime, freshness, refusedAt.Sub(o.revokedAt(r)))
}

// revokedAt returns the time of the revocation of the token.
func (o *owner) revokedAt(r *run) time.Time {
	var all []struct {
		ID        string    `json:"id"`
		RevokedAt time.Time `json:"revoked_at"`
	}
	r.Must(json.Unmarshal([]byte(r.mustToken("list", "--json")), &all))
	for _, t := range all {
		if t.ID == o.id() && !t.RevokedAt.IsZero() {
			return t.RevokedAt
		}
	}
	r.Fatalf("`token list` does not show the token %s as revoked", o.id())
	return time.Time{}
}

// revokeBesideKills revokes tokens before a server is killed and while it is down.
func revokeBesideKills(r *run) {
	servers := r.twoServers()
	valid := r.ownerOf("valid", servers...)
	for n := range max(3, r.Times(30)) {
		first, second := r.ownerOf(fmt.Sprint("first ", n), servers...), r.ownerOf(fmt.Sprint("second ", n), servers...)
		for _, o := range []*owner{valid, first, second} {
			o.valid(r, "before the fault", 0, 1)
		}
		first.revoke(r, "after the revocation", 0, 1)
		victim, survivor := n%2, 1-n%2
		servers[victim].Kill()
		r.strike(1)
		second.revoke(r, "while the other server is down", survivor)
		servers[victim].Start()
		for _, o := range []*owner{first, second} {
			o.refused(r, "after the restart", 0, 1)
		}
		valid.valid(r, "after the restart", 0, 1)
	}
	each(servers, (*lab.Program).Stop)
}

// revokeWithoutPostgres revokes tokens while one server does not reach PostgreSQL, and while PostgreSQL is down.
func revokeWithoutPostgres(r *run) {
	r.onlyPostgres()
	proxy := lab.Proxy(r, r.postgres.Addr)
	servers := []*lab.Program{r.started(), r.started("DATABASE_URL=" + strings.Replace(r.postgres.URL, r.postgres.Addr, proxy.Addr, 1))}
	valid := r.ownerOf("valid", servers...)
	for n := range max(2, r.Times(20)) {
		first, second := r.ownerOf(fmt.Sprint("first ", n), servers...), r.ownerOf(fmt.Sprint("second ", n), servers...)
		for _, o := range []*owner{valid, first, second} {
			o.valid(r, "before the fault", 0, 1)
		}

		proxy.Away()
		r.strike(1)
		first.revoke(r, "while the other server does not reach PostgreSQL", 0)
		valid.valid(r, "while the server does not reach PostgreSQL", 1)
		proxy.Lead(r.postgres.Addr)
		back := time.Now()
		r.took(refusalTime, freshness, first.refused(r, "after the server reaches PostgreSQL again", 1).Sub(back))

		r.postgres.Kill()
		r.strike(1)
		if err := r.tokenCommand("revoke", second.id()).Run(); err == nil {
			r.Fatalf("`token revoke` succeeds while PostgreSQL is down")
		}
		lab.Pause(r, 2*freshness)
		for _, o := range []*owner{valid, second} {
			o.valid(r, "while PostgreSQL is down", 0, 1)
		}
		r.postgres.Restart()
		valid.valid(r, "after PostgreSQL is available again", 0, 1)
		second.revoke(r, "after PostgreSQL is available again", 0, 1)
	}
	each(servers, (*lab.Program).Stop)
}
