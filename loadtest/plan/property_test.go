package plan

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// anyInput draws an input within the bounds that the command line accepts.
func anyInput() *rapid.Generator[Input] {
	return rapid.Custom(func(t *rapid.T) Input {
		return Input{
			Creations:  math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "creations")),
			Years:      rapid.IntRange(1, 100).Draw(t, "years"),
			Servers:    rapid.Int64Range(1, 1_000_000).Draw(t, "servers"),
			Outage:     rapid.Float64Range(0, year).Draw(t, "outage"),
			Redirects:  rapid.Float64Range(0, 1e9).Draw(t, "redirects"),
			Capacity:   rapid.Int64Range(100, 10_000_000_000).Draw(t, "capacity"),
			CodeLength: rapid.IntRange(3, 10).Draw(t, "length"),
			Night:      rapid.Float64Range(0, year).Draw(t, "night"),
			Zipf:       rapid.Float64Range(0, 3).Draw(t, "zipf"),
		}
	})
}

// Every figure of every plan is finite, and no count overflows.
func TestEveryFigureIsFinite(t *testing.T) {
	t.Parallel()
	var check func(t *rapid.T, path string, v reflect.Value)
	check = func(t *rapid.T, path string, v reflect.Value) {
		switch v.Kind() { //nolint:exhaustive // the other kinds have no figures
		case reflect.Struct:
			for i := range v.NumField() {
				check(t, path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				check(t, path, v.Index(i))
			}
		case reflect.Float64:
			if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
				t.Fatalf("%s is %v", path, f)
			}
		case reflect.Int, reflect.Int64:
			if v.Int() < 0 {
				t.Fatalf("%s is %d", path, v.Int())
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := Make(anyInput().Draw(t, "input"))
		check(t, "plan", reflect.ValueOf(*p))
		for _, ratio := range []float64{p.Redirects.HitRatio, p.Outage.FallbackRatio} {
			if ratio > 1+1e-9 {
				t.Fatalf("a ratio is %v in %+v", ratio, p)
			}
		}
		if p.Redirects.Lookups < (1-p.Redirects.HitRatio)*p.Input.Redirects*(1-1e-9) {
			t.Fatalf("fewer look-ups than misses: %+v", p.Redirects)
		}
	})
}

func TestLinksAndCodeLengthNeverDecreaseOverYears(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput().Draw(t, "input")
		years, spaces := in.years(), in.spaces()
		for i, y := range years {
			if y.Year != i+1 || y.Used < 0 || y.Used > 1 || y.Attempts < 1 {
				t.Fatalf("the state at the end of year %d is %+v", i+1, y)
			}
			if i > 0 && (y.Links < years[i-1].Links || y.Length < years[i-1].Length) {
				t.Fatalf("year %d has fewer links or shorter codes than the year before", y.Year)
			}
			if i > 0 && y.Length == years[i-1].Length && y.Attempts < years[i-1].Attempts {
				t.Fatalf("year %d needs fewer attempts than the year before, in the same space", y.Year)
			}
		}
		for i := 1; i < len(spaces); i++ {
			if spaces[i].FullAfter <= spaces[i-1].FullAfter {
				t.Fatalf("space %d is full before space %d", i, i-1)
			}
		}
	})
}

// If one input grows, each figure that depends on it changes in one direction only.
func TestPlanFiguresAreMonotonicInInputs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput().Draw(t, "input")
		never := func(what string, bad bool) {
			if bad {
				t.Fatalf("%s, input %+v", what, in)
			}
		}
		local, outage, pool, database := in.local(), in.outage(in.local()), in.pool(), in.database()

		more := in
		more.Creations *= rapid.Float64Range(1, 10).Draw(t, "factor")
		never("more creations fill the space later", more.spaces()[0].FullAfter > in.spaces()[0].FullAfter)
		never("more creations empty the pool later", more.pool().Runway > pool.Runway)
		never("more creations need a smaller pool", more.pool().NightCapacity < pool.NightCapacity || more.outage(more.local()).Capacity < outage.Capacity)
		never("more creations need smaller batches", more.local().Batch < local.Batch || more.outage(more.local()).Batch < outage.Batch)
		never("more creations need a smaller database", more.database().TableBytes < database.TableBytes || more.database().Nodes < database.Nodes)

		more = in
		more.Servers += rapid.Int64Range(0, 1000).Draw(t, "servers more")
		never("more servers need larger batches", more.local().Batch > local.Batch || more.outage(more.local()).Batch > outage.Batch)
		// The size of a batch is rounded down to a whole number of keys. So if there are more servers, a batch may last for
		// a shorter time. The difference is at most the time in which a server uses one key.
		never("more servers bridge less", more.local().Bridge < local.Bridge-float64(more.Servers)/more.Creations)

		more = in
		more.Capacity *= 2
		never("a larger pool lasts less", more.pool().PageRunway < pool.PageRunway || more.pool().RedisBytes < pool.RedisBytes)
	})
}

func TestCacheHitsNeverDecreaseWithCacheSizeOrRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, rate := rapid.Float64Range(0, 3).Draw(t, "exponent"), rapid.Float64Range(0, 1e9).Draw(t, "rate")
		cached, links := rapid.Float64Range(1, 1000).Draw(t, "cached"), math.Pow(10, rapid.Float64Range(0, 16).Draw(t, "links"))
		hit, fresh := hitRatio(cached, links, s), freshRatio(cached, links, s, rate)
		const rounding = 1 + 1e-9
		if hit < 0 || hit > rounding || fresh < 0 || fresh > hit*rounding {
			t.Fatalf("the share of cache hits is %v, and the share of requests without a look-up is %v", hit, fresh)
		}
		more := rapid.Float64Range(1, 10).Draw(t, "factor")
		if hitRatio(cached*more, links, s)*rounding < hit || freshRatio(cached, links, s, rate*more)*rounding < fresh {
			t.Fatal("a larger cache or a higher rate has fewer hits")
		}
		if hitRatio(cached, links*more, s) > hit*rounding {
			t.Fatal("more links have more hits")
		}
		if hitRatio(cached, links, s*more)*rounding < hit {
			t.Fatal("a greater exponent has fewer hits")
		}
	})
}
