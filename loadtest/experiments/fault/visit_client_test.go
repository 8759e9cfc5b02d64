package fault

import (
	"testing"
	"time"
)

func TestCompareVisitsFindsLostAndSurplusVisits(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds ...int) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, start.Add(time.Duration(s)*time.Second))
		}
		return all
	}
	due := at(10)[0]
	for _, tt := range []struct {
		name    string
		links   []visited
		stored  map[string]int64
		want    visitTotals
		missing time.Duration // age of the oldest missing visit at the time due
	}{
		{"all visits stored", []visited{{"a", at(1, 2), 0}}, map[string]int64{"a": 2}, visitTotals{answered: 2, stored: 2}, 0},
		{"visits of an unknown link", []visited{{"a", at(1), 0}}, map[string]int64{"a": 1, "b": 9}, visitTotals{answered: 1, stored: 1}, 0},
		{"answers out of order", []visited{{"a", at(9, 3), 0}}, map[string]int64{"a": 1}, visitTotals{answered: 2, stored: 1, lost: 1}, time.Second},
		{"visit after the due time missing", []visited{{"a", at(1, 10), 0}}, map[string]int64{"a": 1}, visitTotals{answered: 2, stored: 1}, 0},
		{"no visit stored", []visited{{"a", at(4, 5), 0}}, nil, visitTotals{answered: 2, lost: 2}, 6 * time.Second},
		{"unknown request counted", []visited{{"a", at(1), 1}}, map[string]int64{"a": 2}, visitTotals{answered: 1, unknown: 1, stored: 2}, 0},
		{"visit counted twice", []visited{{"a", at(1), 1}}, map[string]int64{"a": 3}, visitTotals{answered: 1, unknown: 1, stored: 3, twice: 1}, 0},
		{
			"one link lost a visit and another has a surplus", []visited{{"a", at(1, 2), 0}, {"b", at(3), 0}}, map[string]int64{"a": 1, "b": 2},
			visitTotals{answered: 3, stored: 3, lost: 1, twice: 1}, 8 * time.Second,
		},
	} {
		c := compareVisits(tt.links, tt.stored, due)
		if missing := c.missing(due); c.visitTotals != tt.want || missing != tt.missing {
			t.Errorf("%s: the totals are %+v, and the oldest missing visit is %v old, want %+v and %v", tt.name, c.visitTotals, missing, tt.want, tt.missing)
		}
	}
}

func TestFirstCommitAfterMatchesOnlyFirstCommitAfterStatement(t *testing.T) {
	matches := firstCommitAfter(func(request []byte) bool { return string(request) == "insert" })
	for i, step := range []struct {
		request string
		want    bool
	}{
		{"commit\x00", false}, {"insert", false}, {"begin\x00", false}, {"commit\x00", true}, {"commit\x00", false}, {"insert", false}, {"commit\x00", true},
	} {
		if got := matches([]byte(step.request)); got != step.want {
			t.Errorf("request %d, %q, matches: %v, want %v", i, step.request, got, step.want)
		}
	}
}
