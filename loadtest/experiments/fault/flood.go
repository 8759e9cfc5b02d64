package fault

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const (
	scanLimited = "scanner limited"
	scanSlows   = "p99 during the scan"
	scanFails   = "redirects succeed"
)

const (
	scanRate    = 10_000                 // requests for random codes per second
	scanClients = 64                     // requests of the scanner in progress at the same time
	followRate  = 200                    // redirects of the other client per second
	scanSlack   = 2 * time.Millisecond   // the scan may raise a p99 by this time, or by a fifth of the p99 if that is more
	scannerAt   = "198.51.100.1"         // the address of the scanner
	followerAt  = "192.0.2.1"            // the address of the other client
	scanWord    = "abcdefghijkmnpqrstuv" // the characters of the random codes
)

// floodRows returns the fault row in which a client scans for codes.
func floodRows() []row {
	return []row{{
		Name: "fault/23", Title: "scan for codes at 10,000 requests per second", Alone: true,
		Summary: "A scanner requests random codes at up to 10,000 per second, while a client at another address follows links at 200 per second. In every second round, the " +
			"scanner sends its requests to another server. The scanner thus uses the same processor time in all rounds, and the rounds can be compared.",
		Run: inject(scanned), Controls: []experiment.Control{{Settings: []string{"MISS_RATE=1000000", "MISS_BURST=1000000"}, Refutes: scanLimited}},
		Claims: theLinks(
			counted(scanLimited, "answers with 404", "The scanner gets status 404 at most as often as the miss limiter allows, and then it gets status 429."),
			uninterrupted(scanFails, "redirects", "Every redirect of the other client succeeds."),
			timedInMilliseconds(scanSlows, "The scan raises the p99 of the redirects by at most 20 % or 2 ms, whichever is more. Each p99 is the median of five rounds. In the five rounds of the baseline, the scanner sends its requests to another server."),
		),
	}}
}

// timedInMilliseconds returns a claim about a time in milliseconds.
func timedInMilliseconds(name, text string) claim {
	c := timed(name, text)
	c.Unit = "ms"
	return c
}

func scanned(r *run) {
	r.embedded("TRUSTED_PROXIES=127.0.0.1/32")
	server := r.started()
	other := lab.Server(r, "TRUSTED_PROXIES=127.0.0.1/32")
	other.Start()
	load := r.traffic(server)
	r.during(load, 100, time.Second)
	links := acknowledged(load)
	length := time.Second + r.Lasting(4*time.Second)
	// beside has the p99s of the rounds in which the other server is scanned. under has the p99s of the rounds in which this
	// server is scanned.
	var beside, under []time.Duration
	var found answersOf
	began := time.Now()
	for range 5 {
		beside = append(beside, r.round(other, server, links, length, new(answersOf)))
		under = append(under, r.round(server, server, links, length, &found))
		r.strike(1)
	}
	// The miss limiter permits further misses during all rounds, also while the scanner sends its requests to the other server.
	most := 200 + 50*time.Since(began).Seconds() + scanClients // MISS_BURST, MISS_RATE, and the misses that are in progress at the same time
	if float64(found.all()) <= most {
		r.Fatalf("the scanner got only %d answers, and the limit allows %.0f, so the fault row proves nothing", found.all(), most)
	}
	if found.limited.Load() == 0 {
		r.saw(scanLimited, false, "none of %d requests of the scanner was answered with status 429", found.all())
	}
	r.figure(scanLimited, most, float64(found.missing.Load()), "the scanner sent %.0f requests per second; %d requests were answered with status 404, %d with status 429, and %d otherwise",
		float64(found.all())/found.seconds, found.missing.Load(), found.limited.Load(), found.others.Load())
	slices.Sort(beside)
	slices.Sort(under)
	base, p99 := beside[len(beside)/2], under[len(under)/2]
	bound := max(base*6/5, base+scanSlack)
	r.figure(scanSlows, float64(bound.Microseconds())/1000, float64(p99.Microseconds())/1000, "the median of the p99s of five rounds was %v while this server was scanned, and %v while the other server was scanned", p99, base)
	other.Stop()
	r.end(server)
}

// answersOf counts the answers to a scanner.
type answersOf struct {
	missing, limited, others atomic.Int64
	seconds                  float64
}

func (a *answersOf) all() int64 { return a.missing.Load() + a.limited.Load() + a.others.Load() }

// round scans one server for the given time. Meanwhile it follows links on the same server or on
// another server. It returns the p99 of the redirects, and counts the answers to the scanner in
// found.
func (r *run) round(scanned, followed *lab.Program, links []loadtest.Entry, length time.Duration, found *answersOf) time.Duration {
	scanner := loadtest.NewClient(scanned.Public, 0)
	defer scanner.Close()
	var both sync.WaitGroup
	both.Go(func() {
		from := http.Header{"X-Forwarded-For": {scannerAt}}
		loadtest.Pace(r.Context(), loadtest.Schedule{Rate: scanRate, Duration: length}, scanClients, loadtest.NewRecorder(), func(ctx context.Context) loadtest.State {
			answer, err := scanner.Send(ctx, http.MethodGet, "/"+randomCode(), from, nil)
			switch {
			case err == nil && answer.Status == http.StatusNotFound:
				found.missing.Add(1)
			case err == nil && answer.Status == http.StatusTooManyRequests:
				found.limited.Add(1)
			default:
				found.others.Add(1)
			}
			return loadtest.Acknowledged
		})
	})
	visits := loadtest.NewRecorder()
	var wrong atomic.Int64
	from := http.Header{"X-Forwarded-For": {followerAt}}
	loadtest.Pace(r.Context(), loadtest.Schedule{Rate: followRate, Duration: length}, 0, visits, func(ctx context.Context) loadtest.State {
		link := links[rand.IntN(len(links))] //nolint:gosec // the random number need not be secret
		answer, err := followed.Client.Send(ctx, http.MethodGet, "/"+link.Code, from, nil)
		switch {
		case err == nil && answer.Status == http.StatusFound && answer.Header.Get("Location") == link.URL:
			return loadtest.Acknowledged
		case err == nil && answer.Status != http.StatusServiceUnavailable:
			wrong.Add(1)
		}
		return loadtest.Refused
	})
	both.Wait()
	found.seconds += length.Seconds()
	f := visits.Figures()
	r.figure(right, 0, float64(wrong.Load()), "%d of %d answers to the other client were neither a redirect to the URL of the link nor 503", wrong.Load(), f.Sent)
	r.figure(scanFails, 0, float64(f.Failed()), "%d of %d redirects failed, of which %d were not sent in time", f.Failed(), f.Sent+f.Unsent, f.Unsent)
	return f.Latency.P99
}

// randomCode returns a code of the usual length.
func randomCode() string {
	code := make([]byte, 6)
	for i := range code {
		code[i] = scanWord[rand.IntN(len(scanWord))] //nolint:gosec // the random number need not be secret
	}
	return string(code)
}
