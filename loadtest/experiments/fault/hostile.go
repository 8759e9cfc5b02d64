package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

const (
	cheapHosts   = "hostile hosts are cheap"
	oracle       = "guesses of aliases are limited"
	noSquatting  = "no short-lived alias"
	fewCreations = "creations of an address are limited"
)

// hostileRows returns the fault rows in which a client sends requests to do harm.
func hostileRows() []row {
	return []row{
		{
			Name: "fault/25", Title: "hostile host names",
			Summary: "A client sends creations whose URL has a host of up to 5,000 Chinese characters. The processor time of these creations is compared with the processor time of creations that succeed.",
			Run:     inject(hostileHosts), Controls: without(cheapHosts, "host-bound"),
			Claims: []claim{ifInjected(report.Correctness, cheapHosts, "times",
				"A creation with a hostile host needs at most 1 ms of processor time, or at most five times the processor time of a creation that succeeds, whichever is more.",
				func(r *Record) experiment.Verdict { return r.seen[cheapHosts].Verdict })},
		},
		{
			Name: "fault/33", Title: "a client looks for aliases, occupies them, and creates links without end",
			Summary: "Three clients without a token do harm. One sends 150 creations with an alias that exists, one sends 600 creations, and one sends a creation with an alias and a life of a microsecond. Meanwhile other clients create links.",
			Run:     inject(abuse),
			Controls: []experiment.Control{
				{Without: []string{"alias-miss"}, Refutes: oracle}, {Without: []string{"least-life"}, Refutes: noSquatting},
				{Settings: []string{"ANONYMOUS_RATE=off"}, Refutes: fewCreations},
			},
			Claims: []claim{
				counted(oracle, "answers", "The number of answers that show a client that an alias exists is at most the number that the miss limiter allows."),
				observed(noSquatting, "A creation of a link that would expire within less than a second gets status 422, and its alias stays free."),
				counted(fewCreations, "creations", "The server admits at most as many creations of a client without a token as ANONYMOUS_RATE allows."),
				counted("others are not limited", "refusals", "The server answers no creation of other clients with status 429."),
			},
		},
	}
}

func hostileHosts(r *run) {
	r.embedded()
	server := r.started()
	const requests = 300
	good := costOf(r, server, requests, http.StatusCreated, "https://example.com/a/page")
	limit := max(time.Millisecond, 5*good)
	for _, host := range []string{strings.Repeat("中", 5000), distinct(5000), distinct(253), strings.Repeat("中.", 126) + "com"} {
		r.strike(1)
		bad := costOf(r, server, requests, http.StatusUnprocessableEntity, "https://"+host+"/")
		r.figure(cheapHosts, float64(limit)/float64(good), float64(bad)/float64(good),
			"a creation whose host has %d bytes needs %v of processor time, and a creation that succeeds needs %v", len(host), bad, good)
	}
	server.Stop()
}

// distinct returns n different Chinese characters.
func distinct(n int) string {
	var host strings.Builder
	for i := range n {
		host.WriteRune(rune(0x4e00 + i))
	}
	return host.String()
}

// costOf returns the processor time of the server for one creation of a link to url. It sends n creations, or fewer if
// they take more than five seconds of processor time. Each creation must be answered with the given status.
func costOf(r *run, server *lab.Program, n, status int, url string) time.Duration {
	body, err := json.Marshal(map[string]string{"url": url})
	r.Must(err)
	before, sent := server.Processor(), 0
	for ; sent < n && server.Processor()-before < 5*time.Second; sent++ {
		answer, err := server.Client.Send(r.Context(), http.MethodPost, "/shorten", nil, body)
		r.Must(err)
		if answer.Status != status {
			r.Fatalf("the creation of a link to a URL of %d bytes is answered with %d %s, want %d", len(url), answer.Status, answer.Body, status)
		}
	}
	return (server.Processor() - before) / time.Duration(sent)
}

const (
	missRate, missBurst = 5, 30
	creationRate        = 20 // creations per second; ten times as many may arrive at once
)

func abuse(r *run) {
	r.embedded("TRUSTED_PROXIES=127.0.0.1/32", fmt.Sprintf("MISS_RATE=%d", missRate), fmt.Sprintf("MISS_BURST=%d", missBurst),
		fmt.Sprintf("ANONYMOUS_RATE=%d/s", creationRate))
	server := r.started()
	send := func(from string, members map[string]any) (status int, err error) {
		answer, err := server.Client.Send(r.Context(), http.MethodPost, "/shorten", http.Header{"X-Forwarded-For": {from}}, []byte(object(members)))
		return answer.Status, err
	}
	create := func(from string, members map[string]any) int {
		status, err := send(from, members)
		r.Must(err)
		return status
	}
	if status := create("192.0.2.1", map[string]any{"url": "https://example.com/", "alias": "taken"}); status != http.StatusCreated {
		r.Fatalf("the alias is not created: status %d", status)
	}
	// limited sends n creations of a harmful client, at most width at the same time, and counts the answers by status. It also
	// returns how many creations a limit with the given rate and burst allows.
	limited := func(n, width, rate, burst int, from string, members map[string]any) (answers map[int]int, most float64) {
		began, statuses := time.Now(), make([]int, n)
		r.Must(lab.Together(n, width, func(i int) (err error) {
			statuses[i], err = send(from, members)
			return err
		}))
		r.strike(1)
		most = float64(burst) + float64(rate)*time.Since(began).Seconds() + 1
		answers = make(map[int]int)
		for _, status := range statuses {
			answers[status]++
		}
		if answers[http.StatusTooManyRequests] == 0 && float64(n) <= most {
			r.Fatalf("the server refused none of %d creations, and the limit allows %.0f, so the fault row proves nothing", n, most)
		}
		return answers, most
	}
	// Each harmful client has an address of its own, so that it reaches only one limit.
	answers, most := limited(150, 1, missRate, missBurst, "198.51.100.1", map[string]any{"url": "https://other.example/", "alias": "taken"})
	r.figure(oracle, most, float64(answers[http.StatusConflict]), "%d answers show that the alias exists", answers[http.StatusConflict])
	const many = 600 // sent 32 at a time: on a slow disk, creations one after the other would not reach the limit
	answers, most = limited(many, 32, creationRate, 10*creationRate, "198.51.100.2", map[string]any{"url": "https://example.com/"})
	admitted := many - answers[http.StatusTooManyRequests]
	r.figure(fewCreations, most, float64(admitted), "the limit admitted %d creations, and the client created %d links", admitted, answers[http.StatusCreated])

	status := create("198.51.100.3", map[string]any{"url": "https://example.com/", "alias": "squat", "expires_in": "1us"})
	r.strike(1)
	free, _, err := server.Client.Follow(r.Context(), "squat")
	r.Must(err)
	r.saw(noSquatting, status == http.StatusUnprocessableEntity && free == http.StatusNotFound,
		"the creation was answered with status %d, and a request for the alias was answered with status %d", status, free)
	refusals := 0
	for n := range 20 {
		if create(fmt.Sprintf("203.0.113.%d", n), map[string]any{"url": "https://example.com/"}) == http.StatusTooManyRequests {
			refusals++
		}
	}
	r.figure("others are not limited", 0, float64(refusals), "%d of 20 creations of other clients were answered with status 429", refusals)
	server.Stop()
}
