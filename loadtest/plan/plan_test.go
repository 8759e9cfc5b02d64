package plan

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"keypool/loadtest/report"
)

// reference is the deployment that the published figures describe (docs/figures.md).
func reference() Input {
	return Input{
		Creations: 1000, Years: 10, Servers: 20, Outage: 300, Redirects: 100_000, Capacity: 100_000_000, CodeLength: 6,
		Night: (8 * time.Hour).Seconds(), Zipf: smallestZipf,
	}
}

// near reports whether got differs from want by at most relative times want.
func near(got, want, relative float64) bool { return math.Abs(got-want) <= relative*math.Abs(want) }

func TestSpaceSizesEqualHandCalculation(t *testing.T) {
	t.Parallel()
	spaces := Make(reference()).Spaces
	if len(spaces) != 5 || spaces[0].Length != 6 || spaces[4].Length != 10 {
		t.Fatalf("the plan has the spaces %+v, want the lengths 6 to 10", spaces)
	}
	// 62^2 = 3,844; 62^3 = 3,844 * 62 = 238,328; 62^6 = 238,328^2 = 56,800,235,584.
	six := spaces[0]
	if six.Keys != 56_800_235_584 || spaces[1].Keys != 56_800_235_584*62 {
		t.Errorf("there are %d codes of 6 characters and %d of 7 characters", six.Keys, spaces[1].Keys)
	}
	// 6 * 56,800,235,584 = 340,801,413,504 bytes = 341 GB.
	// For comparison, with the 64 characters of base64url: 64^6 = 2^36 = 68,719,476,736, and
	// 6 * 68,719,476,736 = 412,316,860,416 bytes = 412 GB.
	if six.Bytes != 340_801_413_504 || six.Bytes64 != 412_316_860_416 {
		t.Errorf("the key databases have %d bytes in base 62 and %d bytes in base64url", six.Bytes, six.Bytes64)
	}
	// 56,800,235,584 / 1,000 = 56,800,235.584 s. The space of 7 characters is full 62 * 56,800,235.584 s later.
	if !near(six.FullAfter, 56_800_235.584, 1e-12) || !near(spaces[1].FullAfter, 63*56_800_235.584, 1e-12) {
		t.Errorf("the space of 6 characters is full after %v s, and that of 7 characters after %v s", six.FullAfter, spaces[1].FullAfter)
	}
}

// 10 * 64^10 is greater than the greatest int64.
func TestLargestKeyDatabaseDoesNotOverflow(t *testing.T) {
	t.Parallel()
	ten := Make(reference()).Spaces[4]
	if !near(float64(ten.Bytes), 10*math.Pow(62, 10), 1e-9) || !near(float64(ten.Bytes64), 10*math.Pow(64, 10), 1e-9) {
		t.Errorf("the key databases have %d bytes in base 62 and %d bytes in base64url", ten.Bytes, ten.Bytes64)
	}
}

// The test makes all links in one second, so the rate of creations is the number of links.
func TestFallbackAttemptsEqualHandCalculation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		links, ratio, attempts, relative float64
	}{
		// 10,000,000 / 56,800,235,584 = 0.000176; 1 / (1 - 0.000176) = 1.000176.
		{10e6, 0.000176, 1.0002, 1e-3},
		// 40 / 56.800 = 0.70422; 1 / 0.29578 = 3.381.
		{40e9, 0.704, 3.38, 1e-3},
		// 53 / 56.800 = 0.93309; 1 / 0.06691 = 14.95. The published figure is 14.9.
		{53e9, 0.933, 14.9, 4e-3},
	} {
		in := reference()
		in.Creations = tt.links
		y := in.at(1, 1)
		if y.Length != 6 || !near(y.Used, tt.ratio, 1e-3) || !near(y.Attempts, tt.attempts, tt.relative) {
			t.Errorf("after %g links, the state is %+v", tt.links, y)
		}
	}
}

func TestLongerCodesBeginWhenSpaceIsFull(t *testing.T) {
	t.Parallel()
	in := reference()
	in.CodeLength, in.Creations = 3, 1
	const all = 62 * 62 * 62
	last, first := in.at(all-1, 1), in.at(all, 1)
	if last.Length != 3 || last.Attempts != all {
		t.Errorf("the state with one free code is %+v", last)
	}
	if first.Length != 4 || first.Used != 0 || first.Attempts != 1 {
		t.Errorf("the state without a free code is %+v", first)
	}
	if full := in.spaces()[0].FullAfter; full != all {
		t.Errorf("the space is full after %v s, want %d s", full, all)
	}
}

func TestPoolFiguresEqualHandCalculation(t *testing.T) {
	t.Parallel()
	p := Make(reference()).Pool
	const hour, minute = 3600, 60
	for _, tt := range []struct {
		name                string
		got, want, relative float64
	}{
		{"100,000,000 keys / 1,000 per second = 100,000 s = 27.8 h", p.Runway / hour, 27.8, 1e-3},
		{"20 % are 20,000,000 keys", p.RestartBelow, 20e6, 1e-12},
		{"20,000,000 keys / 1,000 per second = 20,000 s = 5.56 h", p.RestartRunway / hour, 5.6, 1e-2},
		{"10 % are 10,000,000 keys", p.PageBelow, 10e6, 1e-12},
		{"10,000,000 keys / 1,000 per second = 10,000 s = 2.78 h", p.PageRunway / hour, 2.8, 1e-2},
		{"100,000,000 keys * 8.07 bytes = 0.807 GB", p.RedisBytes / 1e9, 0.807, 1e-12},
		{"8 h * 3,600 s * 1,000 per second / 10 % = 288,000,000 keys", float64(p.NightCapacity), 288e6, 1e-12},
	} {
		if !near(tt.got, tt.want, tt.relative) {
			t.Errorf("%s: got %v", tt.name, tt.got)
		}
	}
	small := reference()
	small.Capacity = 5_000_000
	// 5,000,000 keys / 1,000 per second = 5,000 s = 83 min.
	if got := Make(small).Pool.Runway / minute; !near(got, 83, 1e-2) {
		t.Errorf("5,000,000 keys last %v min", got)
	}
}

func TestLocalKeyFiguresEqualHandCalculation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		creations         float64
		servers, batch    int64
		bridge, ratio     float64
		bridging, without int64
	}{
		// 1,000 / 20 = 50 per second on each server; a batch of 2 s has 100 keys; 20 * 100 keys last 2 s. An outage of
		// Redis of 300 s needs 50 * 300 = 15,000 keys on each server. An outage of the worker of 300 s takes 300,000 keys from
		// the pool. The pool needs them between its low-water mark (0.9 of the capacity) and the level of the signal page
		// (0.1): 300,000 / (0.9 - 0.1) = 375,000 keys.
		{"design", 1000, 20, 100, 2, 298.0 / 300, 15_000, 375_000},
		// 1 per second on each server: the smallest batch has 100 keys, and lasts 100 s.
		{"smallest batch", 20, 20, 100, 100, 200.0 / 300, 300, 7_500},
		// 1,000,000 per second: the largest batch has 100,000 keys, and lasts 0.1 s.
		{"largest batch", 1e6, 1, 100_000, 0.1, 299.9 / 300, 300_000_000, 375_000_000},
		// 0.1 per second: 100 keys last 1,000 s, so the outage of 300 s needs no fallback. It takes 30 keys, and 30 / 0.8 = 37.5
		// is less than the smallest capacity, 100.
		{"local keys last longer than the outage", 0.1, 1, 100, 1000, 0, 30, 100},
	} {
		in := reference()
		in.Creations, in.Servers = tt.creations, tt.servers
		local, outage := in.local(), in.outage(in.local())
		if local.Batch != tt.batch || local.Keys != 2*tt.batch || local.AllKeys != 2*tt.batch*tt.servers || !near(local.Bridge, tt.bridge, 1e-12) {
			t.Errorf("%s: local keys %+v", tt.name, local)
		}
		if !near(outage.FallbackRatio, tt.ratio, 1e-12) || outage.Batch != tt.bridging || outage.Capacity != tt.without {
			t.Errorf("%s: outage %+v", tt.name, outage)
		}
	}
}

// The signal comes when the level or the limit of the runway applies, whichever is first.
func TestSignalsFollowLevelOrRunwayWhicheverIsFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		capacity      int64
		creations     float64
		restart, page float64
	}{
		// The limits of the runway are 60 s * 1,000 per second = 60,000 keys and 30 s * 1,000 per second = 30,000 keys.
		// They are below the levels: 20 % and 10 % of 100,000,000 keys.
		{"levels", 100_000_000, 1000, 20e6, 10e6},
		// The limits of the runway are 60 s * 10,000 per second = 600,000 keys and 30 s * 10,000 per second = 300,000 keys.
		// They are above the levels: 20 % and 10 % of 1,000,000 keys are 200,000 and 100,000 keys.
		{"limits of the runway", 1_000_000, 10_000, 600_000, 300_000},
		// The low-water mark is 0.9 * 2,000 = 1,800 keys. Their runway is 1,800 / 85 = 21 s, which is below both limits.
		// The limits apply when no key has arrived for 10 s: at 1,800 - 10 * 85 = 950 keys. A measured pool signalled page
		// at 900 keys.
		{"ten seconds without a key", 2000, 85, 950, 950},
		// The low-water mark is 0.9 * 100 = 90 keys, and 90 - 10 * 10 < 0: the pool is empty before ten seconds pass, so
		// the levels apply first.
		{"empty within ten seconds", 100, 10, 20, 10},
	} {
		in := reference()
		in.Capacity, in.Creations = tt.capacity, tt.creations
		p := in.pool()
		if !near(p.RestartBelow, tt.restart, 1e-12) || !near(p.PageBelow, tt.page, 1e-12) {
			t.Errorf("%s: restart below %v keys and page below %v keys, want %v and %v", tt.name, p.RestartBelow, p.PageBelow, tt.restart, tt.page)
		}
		if !near(p.RestartRunway, tt.restart/tt.creations, 1e-12) || !near(p.PageRunway, tt.page/tt.creations, 1e-12) {
			t.Errorf("%s: restart %v s and page %v s before the pool is empty", tt.name, p.RestartRunway, p.PageRunway)
		}
	}
}

func TestCapacityForWorkerOutageMeetsRulesOfLevelAndRunway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		creations, outage float64
		want              int64
	}{
		// 85 * 12 = 1,020 keys for the outage and 85 * 30 = 2,550 keys for the runway; 3,570 / 0.9 = 3,966.7. A measured pool
		// of 2,000 keys signalled page after 12 s. The level alone needs 1,020 / 0.8 = 1,275 keys.
		{"measured", 85, 12, 3967},
		// An outage of 240 s takes 100 * 240 = 24,000 keys. Both rules need 30,000 keys: 24,000 / 0.8 = 30,000, and
		// (24,000 + 100 * 30) / 0.9 = 30,000.
		{"both rules", 100, 240, 30_000},
		// The level needs 300,000 / 0.8 = 375,000 keys, and the runway needs (300,000 + 30,000) / 0.9 = 366,667.
		{"level", 1000, 300, 375_000},
		// The level needs 60,000 / 0.8 = 75,000 keys, and the runway needs (60,000 + 30,000) / 0.9 = 100,000.
		{"runway", 1000, 60, 100_000},
		// The last look may be 1 s before the outage. At the end of an outage of 9 s, 10 s without a key may then have passed,
		// so the rule of the runway applies: 1,000 * (9 + 30) / 0.9 = 43,333.3.
		{"ten seconds from the look before the outage", 1000, 9, 43_334},
		// An outage of 8 s is too short for the rule of the runway. The level needs 8,000 / 0.8 = 10,000 keys.
		{"less than ten seconds", 1000, 8, 10_000},
	} {
		in := reference()
		in.Creations, in.Outage = tt.creations, tt.outage
		if got := in.outage(in.local()).Capacity; got != tt.want {
			t.Errorf("%s: %d keys, want %d", tt.name, got, tt.want)
		}
	}
}

func TestNightCapacityIsSmallestWithTimelyPageSignal(t *testing.T) {
	t.Parallel()
	for night, want := range map[float64]int64{
		// The smaller capacity is enough, because either rule alone gives the signal. The level needs
		// 1,000 * 1 / 0.1 = 10,000 keys, and the runway needs 1,000 * (1 + 10) / 0.9 = 12,222.
		1: 10_000,
		// The level needs 1,000 * 30 / 0.1 = 300,000 keys, and the runway needs 1,000 * (30 + 10) / 0.9 = 44,444.4.
		30: 44_445,
		// The limit of the runway is 30 s, so only the level can cause the signal 31 s before the pool is empty:
		// 1,000 * 31 / 0.1 = 310,000.
		31: 310_000,
	} {
		in := reference()
		in.Night = night
		if got := in.pool().NightCapacity; got != want {
			t.Errorf("%v s: %d keys, want %d", night, got, want)
		}
		if in.Capacity = in.pool().NightCapacity; in.pool().PageRunway < night*(1-1e-9) {
			t.Errorf("with %d keys, the signal page comes %v s before the pool is empty, want %v s", in.Capacity, in.pool().PageRunway, night)
		}
	}
}

// KGS_POOL_CAPACITY must be at least 100, and KGS_BATCH_MIN at least 1.
func TestPlanProposesOnlyValuesThatSettingsAccept(t *testing.T) {
	t.Parallel()
	in := reference()
	in.Creations, in.Night, in.Outage = 0.001, 10, 0
	p := Make(in)
	if p.Pool.NightCapacity != 100 || p.Outage.Capacity != 100 || p.Outage.Batch != 1 || !near(p.Pool.NightRedis, 807, 1e-12) {
		t.Errorf("the plan proposes %+v and %+v", p.Pool, p.Outage)
	}
	var text strings.Builder
	if err := p.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), " 100 keys, the minimum of KGS_POOL_CAPACITY"); n != 2 {
		t.Errorf("the text names the minimum %d times, want 2:\n%s", n, &text)
	}
}

func TestDatabaseFiguresEqualHandCalculation(t *testing.T) {
	t.Parallel()
	year := func(creations float64) Input {
		in := reference()
		in.Years, in.Creations, in.Redirects = 1, creations, 0
		return in
	}
	fast := year(2e6)
	fast.Years = 10
	for _, tt := range []struct {
		name                   string
		in                     Input
		links                  int64
		table                  float64
		nodes, shards, servers int64
	}{
		// 1 * 31,536,000 s = 31,536,000 links; * 126 bytes = 3.97 GB.
		{"small", year(1), 31_536_000, 3.973536e9, 1, 1, 1},
		// 8,854 * 31,536,000 s = 279,219,744,000 links; * 126 bytes = 35.182 TB; a table has at most 35.184 TB.
		{"largest table", year(8854), 279_219_744_000, 35.181687744e12, 1, 1, 1},
		// 8,855 * 31,536,000 s = 279,251,280,000 links; * 126 bytes = 35.186 TB: the table needs shards.
		// A creation on Citus costs 1.82 times as much: 8,855 * 1.82 / 10,486 = 1.54 nodes.
		{"smallest table with shards", year(8855), 279_251_280_000, 35.18566128e12, 2, 128, 1},
		// 1,000 * 315,360,000 s = 315,360,000,000 links; * 126 bytes = 39.7 TB: the table needs shards, but one node is
		// fast enough: 1,000 * 1.82 / 10,486 = 0.17.
		// A server makes 10,486 creations or 20,972 redirects per second: 1,000 / 10,486 + 100,000 / 20,972 = 4.86 servers.
		{"reference", reference(), 315_360_000_000, 39.73536e12, 1, 128, 5},
		// 2,000,000 * 1.82 / 10,486 = 347.1 nodes, and each needs a shard. 2,000,000 / 10,486 = 190.7 servers.
		{"more nodes than shards by default", year(2e6), 63_072_000_000_000, 7.947072e15, 348, 348, 191},
		// 79,470.72 TB / 35.184372 TB = 2,258.7 shards.
		{"more shards than nodes", fast, 630_720_000_000_000, 79.47072e15, 348, 2259, 191},
	} {
		d := tt.in.database()
		if d.Links != tt.links || !near(d.TableBytes, tt.table, 1e-9) || d.Nodes != tt.nodes || d.Shards != tt.shards || d.ServersAtLeast != tt.servers {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

func TestTextShowsSizesAndExceededLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	in := reference()
	in.Creations, in.Servers = 1e6, 10
	large := in
	large.Servers = 1000
	if err := errors.Join(Make(in).WriteText(&b), Make(large).WriteText(&b)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"341 GB", "412 GB", "101, more than this plan has", "30,000,000 keys, more than the limit of 1,000,000", "300,000 keys, and the same KGS_BATCH_MAX",
		"288,000,000,000 keys, more than the limit of 10,000,000,000", "1 min 40 s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text does not contain %q:\n%s", want, &b)
		}
	}
}

func TestTextUsesSingularForOne(t *testing.T) {
	t.Parallel()
	in := reference()
	in.Creations, in.Redirects, in.Servers, in.Years, in.Outage = 1, 1, 1, 1, 1
	var text strings.Builder
	if err := Make(in).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 creation and 1 redirect per second on 1 server for 1 year.", "Database after 1 year\n", " 1 key\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not contain %q:\n%s", want, &text)
		}
	}
	if found := regexp.MustCompile(`(^|[^\d.,])1 (key|server|year|creation|redirect)s`).FindString(text.String()); found != "" {
		t.Errorf("the text contains %q:\n%s", found, &text)
	}
}

func TestPlanPageHasChartsAndConstants(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Make(reference()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "<svg"); n != 5 || !strings.Contains(b.String(), "codes of 7 characters begin") {
		t.Errorf("the page has %d charts, want 5, or lacks the mark at which codes of 7 characters begin", n)
	}
	for _, c := range Constants() {
		if !strings.Contains(b.String(), c.Name) || !strings.Contains(b.String(), report.Number(c.Value)) {
			t.Errorf("the page lacks %s", c.Name)
		}
	}
}

func TestLongTimeIsWrittenInFittingUnit(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		30: "30 s", 5000: "1 h 23 min", 10_000: "2.8 h", 100_000: "27.8 h", 100 * 3600: "4 d 4 h", 56_800_235.584: "657 d 9 h", 2.25 * year: "2.3 years", 1e9 * year: "1,000,000,000 years",
		27_050_303.49 * year: "27,050,303 years",
	} {
		if got := lasts(seconds); got != want {
			t.Errorf("%v s: %q, want %q", seconds, got, want)
		}
	}
}
