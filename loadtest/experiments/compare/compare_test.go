package compare

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"keypool/loadtest"
	"keypool/loadtest/controls"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// retryable is the answer of a refusal that says when to retry.
const retryable = "503, Retry-After 1"

// sound returns a record for which every claim holds. The record has a key source of each kind.
func sound() *record {
	links := loadtest.Verdict{Figures: loadtest.Figures{Sent: 9, Acknowledged: 9}, Findings: loadtest.Findings{Checked: 9}}
	r := &record{usual: true, took: time.Minute, rounds: 1, crashes: 1}
	r.Complete, r.Links = true, &links
	for _, s := range append(sources.Compared(), rivals("bin")...) {
		r.found = append(r.found, &found{Source: s})
	}
	plant := func(name string, calls float64, skipped measure.Series, outages ...*outage) *found {
		f := r.of(name)
		f.rate, f.p99, f.best, f.calls, f.skipped, f.outages = measure.Series{1000}, measure.Series{2}, measure.Series{1}, measure.Series{calls}, skipped, outages
		return f
	}
	served := func(victim, fallback string) *outage {
		return &outage{victim: victim, fallback: fallback, served: 600, local: 3 * time.Second, returned: true}
	}
	refused := func(victim string) *outage {
		return &outage{victim: victim, fallback: "none", refused: 600, answers: []string{retryable}, back: time.Second, returned: true}
	}
	plant(pool, 0.001, measure.Series{100}, served(theRedis, "none"), served(theRedis, random))
	plant(incr, 1, measure.Series{0}, refused(theRedis), &outage{victim: theRedis, fallback: random, byFallback: 600, returned: true})
	plant("ticket", 1, measure.Series{0}, served(evenTickets, "none"), refused(bothTickets))
	plant(random, 0, nil, refused(thePostgres))
	plant(lockedTable, 4, nil).rate = measure.Series{100}
	plant(redisSet, 1, nil).rate = measure.Series{900}
	return r
}

// judge returns the names of the claims of this package that have the outcome.
func judge(r *record, outcome report.Outcome) (names []string) {
	aboutLinks := []string{measure.NoLostLink, measure.NoWrongLink, measure.NoCodeTwice}
	for _, c := range claims() {
		if v := c.Judge(r); !slices.Contains(aboutLinks, c.Name) && (v.Outcome == outcome || v.Outcome == "" && outcome == report.NotJudged) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Each wrong observation refutes the claim about this observation, and no other claim.
func TestWrongObservationRefutesOnlyMatchingClaim(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(*record)
		want  string
	}{
		"sound":                                   {func(*record) {}, ""},
		"a pool that is called for each key":      {func(r *record) { r.of(pool).calls[0] = 1 }, "key sources with batches make few calls"},
		"a counter that is not called":            {func(r *record) { r.of(incr).calls[0] = 0 }, "counters make one call per creation"},
		"a counter that is called three times":    {func(r *record) { r.of(incr).calls[0] = 3 }, "counters make one call per creation"},
		"tickets that are sometimes called":       {func(r *record) { r.of("ticket").calls = measure.Series{1, 0.9, 0.9} }, "counters make one call per creation"},
		"random codes that cost calls":            {func(r *record) { r.of(random).calls[0] = 0.5 }, "other key sources make no calls"},
		"a pool that loses many keys":             {func(r *record) { r.of(pool).skipped[0] = 1000 }, "a crash costs at most two batches"},
		"a counter that loses many numbers":       {func(r *record) { r.of(incr).skipped[0] = 1000 }, "a crash with a counter loses few numbers"},
		"a pool without local keys":               {func(r *record) { r.of(pool).outages[0].local = 0 }, "local keys serve creations during an outage"},
		"a counter that works without Redis":      {func(r *record) { r.of(incr).outages[0].local = 2 * time.Second }, "counters stop without their supply"},
		"tickets that need both databases":        {func(r *record) { r.of("ticket").outages[0].refused = 1 }, "one ticket database is enough"},
		"a fallback that fails":                   {func(r *record) { r.of(incr).outages[1].unknown = 1 }, "no creation fails with a fallback"},
		"a refusal without Retry-After":           {func(r *record) { r.of(incr).outages[0].answers[0] = "503" }, "refusals say when to retry"},
		"a server that hangs":                     {func(r *record) { r.of(incr).outages[0].unknown = 1 }, "every creation is answered"},
		"a key source that does not recover":      {func(r *record) { r.of(incr).outages[0].returned = false }, "every key source recovers"},
		"a key source that recovers late":         {func(r *record) { r.of(random).outages[0].back = time.Minute }, "every key source recovers"},
		"a rival that is faster":                  {func(r *record) { r.of(redisSet).rate[0] = 1001 }, "a pool is faster than the rivals"},
		"a comparison that takes too long":        {func(r *record) { r.took = 2 * limit }, "comparison ends in time"},
		"a scaled comparison that takes too long": {func(r *record) { r.took, r.usual = 2*limit, false }, ""},
	} {
		r := sound()
		tt.spoil(r)
		if got := strings.Join(judge(r, report.Failed), ", "); got != tt.want {
			t.Errorf("%s: the claims %q fail, want %q", name, got, tt.want)
		}
	}
	if judged := judge(sound(), report.NotJudged); len(judged) > 0 {
		t.Errorf("the claims %q are not judged", judged)
	}
}

// A value that was not measured is neither judged nor shown as a figure.
func TestUnmeasuredValuesAreNeitherJudgedNorShown(t *testing.T) {
	t.Parallel()
	if decided := append(judge(&record{}, report.Held), judge(&record{}, report.Failed)...); len(decided) > 0 {
		t.Errorf("an empty record decides the claims %q", decided)
	}
	r := &record{found: []*found{{Source: sources.Source{Name: pool}}, {Source: sources.Source{Name: incr}}}}
	var e report.Experiment
	show(r, &e)
	for _, table := range e.Tables {
		for _, row := range table.Rows {
			for _, cell := range row[1:] {
				if cell != unknown {
					t.Errorf("table %s: cell %q in row %q, want no figure", table.Title, cell, row)
				}
			}
		}
	}
}

func TestTableOfIncrAndKGSShowsObservations(t *testing.T) {
	t.Parallel()
	r := sound()
	var e report.Experiment
	show(r, &e)
	got := make(map[string][]string)
	for _, row := range e.Tables[1].Rows {
		got[row[0]] = row[1:]
	}
	for what, want := range map[string][]string{
		"calls per creation":                                  {"1 calls", "0.001 calls"},
		"creations on 64 connections":                         {"1k/s", "1k/s"},
		"works without its supply for":                        {"0 s", "3 s"},
		"answers to failed creations after the kill of Redis": {retryable, "none"},
		"creations without Redis, with the default fallback":  {"100 % by the fallback", "100 % served"},
		"time to recover after the restart of Redis":          {"1 s", "0 s"},
		"numbers skipped per crash":                           {"0 numbers", "100 numbers"},
	} {
		if !slices.Equal(got[what], want) {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
}

func TestKeySourcePropertiesAreCorrect(t *testing.T) {
	t.Parallel()
	r := sound()
	if err := r.countLines(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][3]string{
		pool:        {theRedis, "no", "yes, 36 bits"},
		incr:        {theRedis, "no", "yes, 36 bits"},
		"kgs":       {theService, "no", "yes, 36 bits"},
		"ticket":    {"none", "no", "yes, 36 bits"},
		"snowflake": {"none", "yes", "yes, 63 bits"},
		"hash":      {"none", "no", "yes, 36 bits"},
		"uuid":      {"none", "no", "no, 128 bits"},
		lockedTable: {"none", "no", "yes, 36 bits"},
		redisSet:    {theRedis, "no", "yes, 36 bits"},
	} {
		f := r.of(name)
		if got := [3]string{f.failure(), f.embedsTime(), f.bits()}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, f := range r.found {
		if f.code() == "" {
			t.Errorf("%s has no lines of code", f.Name)
		}
	}
	if one, other := r.of(random).lines, r.of(pool).lines; one < 10 || one > 100 || other < 10*one {
		t.Errorf("the key source %s has %d lines of code and %s has %d, want 10 to 100 lines and at least ten times as many", random, one, pool, other)
	}
}

// The rivals must compile in the server.
func TestServerCompilesWithRivalKeySources(t *testing.T) {
	t.Parallel()
	root, err := controls.ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := overlayRivals(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "keypool/cmd/internal/app")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v; its output:\n%s", err, out)
	}
}

// entries returns a load of one creation per second. Each letter is the outcome of a creation:
//
//   - l: a link with a key of the key source;
//   - f: a link by the fallback;
//   - r: a refusal with Retry-After;
//   - x: a refusal without Retry-After;
//   - "-": no answer.
func entries(start time.Time, letters string) (all []loadtest.Entry) {
	outcomes := map[rune]loadtest.Outcome{
		'l': {State: loadtest.Acknowledged, Code: "own"},
		'f': {State: loadtest.Acknowledged, Code: "fallback"},
		'r': {State: loadtest.Refused, Detail: "503 Service Unavailable no keys", RetryAfter: "1"},
		'x': {State: loadtest.Refused, Detail: "500 Internal Server Error"},
		'-': {State: loadtest.Unknown, Detail: "EOF"},
	}
	for i, letter := range letters {
		all = append(all, loadtest.Entry{N: i, At: start.Add(time.Duration(i) * time.Second), Outcome: outcomes[letter]})
	}
	return all
}

// The kill follows the second creation, and the restart follows the seventh. The component answers before the eighth.
func TestObserveCountsCreationsDuringAndAfterOutage(t *testing.T) {
	t.Parallel()
	start := time.Now()
	w := window{start.Add(1500 * time.Millisecond), start.Add(6500 * time.Millisecond), start.Add(6800 * time.Millisecond)}
	byFallback := func(code string) bool { return code == "fallback" }
	for _, tt := range []struct {
		name, letters string
		want          outage
		retryable     bool // every refusal says when to retry
	}{
		{"the key source serves every creation", "ll" + "lllll" + "ll", outage{served: 5, local: 5 * time.Second, returned: true}, true},
		{"local keys, then refusals", "ll" + "llrrr" + "ll", outage{
			served: 2, refused: 3, answers: []string{retryable}, local: 2500 * time.Millisecond, returned: true,
		}, true},
		{"the fallback serves creations", "ll" + "lffff" + "fl", outage{
			served: 1, byFallback: 4, local: 1500 * time.Millisecond, back: 200 * time.Millisecond, returned: true,
		}, true},
		{"the key source does not recover", "ll" + "rrrrr" + "lr", outage{
			refused: 5, answers: []string{retryable}, local: 500 * time.Millisecond, back: 1200 * time.Millisecond,
		}, true},
		{"refusals without Retry-After", "ll" + "r-x--" + "ll", outage{
			refused: 2, unknown: 3, answers: []string{"500", retryable, "no answer"}, local: 500 * time.Millisecond, returned: true,
		}, false},
		{"creations without an answer", "ll" + "-----" + "ll", outage{unknown: 5, answers: []string{"no answer"}, local: 500 * time.Millisecond, returned: true}, true},
		{"a creation before the kill fails", "l-" + "lllll" + "ll", outage{served: 5, local: 5 * time.Second, returned: true}, true},
	} {
		got := observe(entries(start, tt.letters), w, byFallback)
		if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(outage{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if n := got.wrongRefusals(); (n == 0) != tt.retryable {
			t.Errorf("%s: wrongRefusals returns %v; want 0: %t", tt.name, n, tt.retryable)
		}
	}
	another := observe(entries(start, "ll"+"lllll"+"rx"), window{lost: w.lost, back: w.back}, byFallback) // no restart, but another outage
	if diff := cmp.Diff(outage{served: 5, local: 5 * time.Second, returned: true}, *another, cmp.AllowUnexported(outage{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("without a restart (-want +got):\n%s", diff)
	}
	got := observe(entries(start, "ll"+"lfr-r"+"ll"), w, byFallback)
	if want := "20 % served, 20 % by the fallback, 40 % refused, 20 % without an answer"; got.String() != want {
		t.Errorf("String returns %q, want %q", got.String(), want)
	}
}

func TestFunctionGapsCountsMissingNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		numbers    []int64
		step, want int64
	}{
		{"no numbers", nil, 1, 0},
		{"one number", []int64{7}, 1, 0},
		{"consecutive numbers", []int64{7, 8, 9}, 1, 0},
		{"consecutive numbers in any order", []int64{9, 7, 8}, 1, 0},
		{"a crash loses a hundred numbers", []int64{0, 1, 102, 103}, 1, 100},
		{"consecutive odd and even numbers", []int64{1, 2, 3, 4}, 2, 0},
		{"odd numbers far ahead of even numbers", []int64{1001, 1003, 2, 4}, 2, 0},
		{"two odd numbers are missing", []int64{1, 7, 2, 4}, 2, 2},
	} {
		if got := gaps(tt.numbers, tt.step); got != tt.want {
			t.Errorf("%s: %d numbers are missing, want %d", tt.name, got, tt.want)
		}
	}
}

// A reserved key that a link has is not skipped, and neither is a free key.
func TestSkippedKeysExcludeLinkedAndFreeKeys(t *testing.T) {
	t.Parallel()
	url := lab.Postgres(t).URL
	for _, text := range []string{
		`CREATE TABLE all_links (code text)`, `CREATE TABLE used_keys (key text)`, `CREATE TABLE available_keys (key text, is_reserved boolean)`,
		`INSERT INTO available_keys VALUES ('linked', true), ('taken', true), ('free', false)`,
		`INSERT INTO used_keys VALUES ('spent'), ('gone')`, `INSERT INTO all_links VALUES ('linked'), ('spent')`,
	} {
		lab.Execute(t, url, text)
	}
	if n, err := keysSkipped(t.Context(), url); err != nil || n != 2 {
		t.Errorf("keysSkipped returns %d and error %v, want 2 and no error", n, err)
	}
}
