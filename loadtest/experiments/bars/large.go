package bars

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/shortener"
)

// Sizes of databases, in links.
const (
	fewLinks  = 1_000_000
	manyLinks = 10_000_000
	mostLinks = 100_000_000
)

// auditLimit is the longest time that an audit may take.
const auditLimit = 15 * time.Minute

// large measures look-ups, creations, lists, audits and redirects of random links, and the start of the embedded
// server, with large databases of one engine.
func large(e engine) *experiment.Experiment {
	bars := []bar{
		{name: "cost of a look-up, " + e.name, unit: "µs", versus: "the same with 1 million links", most: 1.5,
			text: "A look-up with 10 million links (100 million with --full) takes at most 1.5 times as long as with 1 million links."},
		{name: "cost of a creation, " + e.name, unit: "µs", versus: "the same with 1 million links", most: 1.15,
			text: "A creation with 10 million links (100 million with --full) takes at most 1.15 times as long as with 1 million links."},
		{name: "audit, " + e.name, unit: "µs", most: 1.2, note: "the figure is the time of `shortener audit`, divided by the number of links",
			text: "An audit of 10 million links (100 million with --full) takes at most 1.2 µs per link, which is two minutes for 100 million links."},
		{name: "memory of the audit, " + e.name, unit: "MiB", most: 94,
			text: "The resident memory of an audit of 10 million links (100 million with --full) is at most 94 MiB, which is 64 MiB above the bar for the embedded server at rest."},
		{name: "random redirects, " + e.name, unit: measure.PerSecond, versus: "bare Echo", least: 0.55,
			note: "the cache holds 65,536 links (0.66 %) and reads a link from the store again after 0.9 s, so nearly every redirect needs a look-up",
			text: "With 10 million links, the rate of redirects of random links is at least 0.55 times the rate of a bare Echo handler that redirects."},
		{name: "random redirects, GOMEMLIMIT=60MiB, " + e.name, unit: measure.PerSecond, versus: "the same without a limit", least: 0.85,
			text: "With GOMEMLIMIT=60MiB, the rate of redirects of random links is at least 0.85 times the rate without a memory limit."},
		{name: "look-ups of the store, " + e.name, unit: measure.PerSecond, versus: "bare Echo"},
		{name: "page cache before the look-ups, " + e.name, unit: "%", note: "the figure is the part of the files of the largest database that is in the page cache; each file is read once before the look-ups"},
		{name: "page cache after the redirects, " + e.name, unit: "%", note: "the figure is the part of the files of the database with 10 million links that is in the page cache"},
		{name: "memory under random redirects, " + e.name, unit: "MiB", most: 90, text: "The resident memory of the server is at most 90 MiB during redirects of random links."},
		{name: "list, " + e.name, unit: "ms", most: 5, note: "the figure is the time of a request for 100 of 10 million links, up to the end of the answer; the token of the request sees all links",
			text: "A list of the 100 newest of 10 million links takes at most 5 ms."},
		{name: "next page of the list, " + e.name, unit: "ms", most: 5, note: "the page contains the 100 links that follow the 1,000 newest links",
			text: "With 10 million links, page 11 of the list takes at most 5 ms. A page has 100 links, and page 1 has the newest ones."},
	}
	if e.embedded {
		bars = append(bars, bar{name: "start, 10 million links", unit: "ms", most: 100, note: "a client tries every 10 ms, so the real time may be up to 10 ms shorter",
			text: "With a database of 10 million links, the embedded server takes at most 100 ms from exec to the first answer with status 201."})
	}
	return define("large-"+e.short, "Large databases, "+e.name,
		"The databases have 1 and 10 million links, and with --full also 100 million. The experiment measures how long a look-up and a creation take in the store. "+
			"Before these measurements, the files of each database are read once, so that no measurement waits for the disk if the files fit into memory. "+
			"The experiment also measures lists, an audit, and redirects of random links while the cache holds almost none of them. The baseline of the redirects is "+
			"a bare handler of the web framework Echo that only redirects.",
		bars, func(t *experiment.T, r *record) {
			few, many := fill(t, e, fewLinks), fill(t, e, manyLinks)
			most := many
			if t.Full {
				most = fill(t, e, mostLinks)
			}
			list(t, r, many) // list runs before growth, because growth removes links
			growth(t, r, few, most)
			audit(t, r, most)
			randomRedirects(t, r, many)
			if e.embedded {
				firstLinks(t, r, "start, 10 million links", many.settings()...)
			}
		})
}

// growth measures how long a look-up and a creation take in the store, with few and with many links.
func growth(t *experiment.T, r *record, few, many *filled) {
	lookUp := func(f *filled) measure.Subject {
		return measure.Subject{Name: "look-up, " + f.String(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) {
			perSecond, err := lookUps(ctx, f, each)
			return 1e6 / perSecond, err
		}}
	}
	insert := func(f *filled) measure.Subject {
		return measure.Subject{Name: "creation, " + f.String(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) { return insertCost(ctx, f, each) }}
	}
	few.readAhead(t)
	many.readAhead(t)
	many.putResident(t, r, "page cache before the look-ups, ")
	figures := alternate(t, lookUp(few), lookUp(many), insert(few), insert(many))
	r.put("cost of a look-up, "+many.name, figures[1], figures[0])
	r.put("cost of a creation, "+many.name, figures[3], figures[2])
}

// audit measures the time and the memory of an audit. The accounts must close.
func audit(t *experiment.T, r *record, f *filled) {
	server := lab.Server(t, f.settings()...) // this server creates the ledger
	server.Start()
	server.Stop()
	f.readAhead(t)
	begun := time.Now()
	run := server.Begin("audit")
	var peak uint64
	lab.Wait(t, auditLimit, "the audit has ended", func() bool {
		if memory, err := lab.MemoryOf(run.PID()); err == nil { // there is an error when the process has ended
			peak = max(peak, memory.Peak)
		}
		select {
		case <-run.Done():
			return true
		default:
			return false
		}
	})
	took := time.Since(begun)
	if err := run.Err(); err != nil {
		t.Errorf("audit: %w; its log:\n%s", err, server.Tail())
		return
	}
	r.put("audit, "+f.name, measure.Series{float64(took.Microseconds()) / float64(f.links)}, nil)
	r.put("memory of the audit, "+f.name, measure.Series{float64(peak) / mebi}, nil)
}

// randomRedirects measures redirects of random links. The cache holds almost none of the links.
func randomRedirects(t *experiment.T, r *record, f *filled) {
	f.readAhead(t)
	server, limited := lab.Server(t, f.settings()...), lab.Server(t, append(f.settings(), "GOMEMLIMIT=60MiB")...)
	server.Start()
	defer server.Kill()
	limited.Start()
	defer limited.Kill()
	random := func(name string, s *lab.Program) measure.Subject {
		code := f.anyCode()
		t.Must(measure.TryVisit(t.Context(), s.Public, code, urlOf(code)))
		redirects := measure.Wrk{URL: s.Public, Script: "random", Duration: each, Check: redirectsCounted(t, s)}
		return measure.Subject{Name: name + ", " + f.String(), Unit: measure.PerSecond, Measure: func(ctx context.Context) (float64, error) {
			// The script draws random links with this seed. With one seed for all rounds, it would draw the
			// same links in each round.
			seed := strconv.FormatUint(uint64(rand.Uint32()), 10) //nolint:gosec // the random number need not be secret
			redirects.Args = []string{f.codes, strconv.Itoa(codeLength), seed}
			tally, err := redirects.Run(ctx)
			return tally.PerSecond(), err
		}}
	}
	echo := measure.Wrk{URL: measure.BareServer(t) + "/alias", Script: "get", Duration: each}
	figures := alternate(t, echo.Subject("bare Echo"), random("redirects", server), random("redirects with GOMEMLIMIT=60MiB", limited),
		measure.Subject{Name: "look-ups, " + f.String(), Unit: measure.PerSecond, Measure: func(ctx context.Context) (float64, error) { return lookUps(ctx, f, each) }},
	)
	f.putResident(t, r, "page cache after the redirects, ")
	r.put("random redirects, "+f.name, figures[1], figures[0])
	r.put("random redirects, GOMEMLIMIT=60MiB, "+f.name, figures[2], figures[1])
	r.put("look-ups of the store, "+f.name, figures[3], figures[0])
	if len(figures[1]) > 0 {
		r.put("memory under random redirects, "+f.name, measure.Series{float64(server.Memory().Peak) / mebi}, nil)
	}
}

const (
	listRequests = 50 // requests for each page in a round; list records the median of their times
	nextPage     = 11 // list measures the first page and the page with this number
)

// list measures how long the server takes for the first page and for a later page of the list of all links.
func list(t *experiment.T, r *record, f *filled) {
	server := lab.Server(t, f.settings()...)
	server.Start()
	defer server.Kill()
	header := http.Header{"Authorization": {"Bearer " + token(t, server)}}
	page := func(query string, want int) (next string) {
		answer, err := server.Client.Send(t.Context(), http.MethodGet, "/api/links?"+query, header, nil)
		t.Must(err)
		var list struct {
			Links []json.RawMessage `json:"links"`
			Next  string            `json:"next"`
		}
		t.Must(json.Unmarshal(answer.Body, &list))
		if len(list.Links) != want {
			t.Fatalf("the list has %d links, want %d", len(list.Links), want)
		}
		return list.Next
	}
	position := ""
	for range nextPage - 1 {
		position = page("limit=100&cursor="+position, 100)
	}
	r.repeat(rounds, func() map[string]float64 {
		var first, next measure.Series
		for range listRequests {
			begun := time.Now()
			page("limit=100", 100)
			then := time.Now()
			page("limit=100&cursor="+position, 100)
			first = append(first, float64(then.Sub(begun).Microseconds())/1000)
			next = append(next, float64(time.Since(then).Microseconds())/1000)
		}
		return map[string]float64{"list, " + f.name: first.Median(), "next page of the list, " + f.name: next.Median()}
	})
}

// lookUps returns how many random links the store reads per second. It measures for d, with as many
// callers as wrk has connections. It compares each URL with the expected URL.
func lookUps(ctx context.Context, f *filled, d time.Duration) (perSecond float64, err error) {
	var n atomic.Int64
	begun := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range measure.Connections {
		g.Go(func() error {
			for time.Since(begun) < d {
				code := f.anyCode()
				limited, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
				link, err := f.store.Lookup(limited, code)
				cancel()
				if err == nil && link.URL != urlOf(code) {
					err = fmt.Errorf("%s leads to %q, want %q", code, link.URL, urlOf(code))
				}
				if err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), err
}

// insertCost returns the time of a creation in microseconds, measured for d. Each group commit has as
// many links as wrk has connections. The codes are those that the ledger would give out next. After the
// measurement, insertCost removes the new links so that the database does not grow with each round.
func insertCost(ctx context.Context, f *filled, d time.Duration) (micros float64, err error) {
	begun := time.Now()
	for time.Since(begun) < d {
		codes := space.Codes(codespace.Range{Length: codeLength, Lo: f.next, Hi: f.next + measure.Connections})
		f.next += measure.Connections
		links := make([]shortener.Link, len(codes))
		for i, code := range codes {
			links[i] = linkOf(code)
		}
		limited, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		outcomes, err := f.store.Insert(limited, links)
		cancel()
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(outcomes, func(o shortener.Outcome) bool { return o != shortener.Inserted }); i >= 0 {
			return 0, fmt.Errorf("the store already has a link with the code %s", links[i].Code)
		}
	}
	micros = float64(time.Since(begun).Microseconds()) / float64(f.next-f.links)
	return micros, f.remove(ctx)
}
