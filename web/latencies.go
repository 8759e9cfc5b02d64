package web

import (
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// latencyResolution is the factor from one bucket of a native histogram to the next. Its
// middle is off by less than half of that.
const latencyResolution = 1.1

// latencies are the observations of a native histogram by bucket. Bucket i holds what took
// more than b^(i-1) and up to b^i seconds, where b is 2^(2^-schema).
type latencies struct {
	schema int32
	counts map[int32]int64
}

// readLatencies decodes what the client library writes: runs of buckets, and from each
// bucket to the next by how much its count differs.
func readLatencies(h *dto.Histogram) latencies {
	l := latencies{schema: h.GetSchema(), counts: make(map[int32]int64)}
	deltas := h.GetPositiveDelta()
	index, count := int32(0), int64(0)
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			l.counts[index] = count
			index++
		}
	}
	return l
}

// since is what was observed after before, an earlier state of the same histogram.
func (l latencies) since(before latencies) latencies {
	fresh := latencies{schema: l.schema, counts: make(map[int32]int64)}
	for i, n := range l.counts {
		if n -= before.counts[i]; n > 0 {
			fresh.counts[i] = n
		}
	}
	return fresh
}

// quantile is the duration in seconds that a part q of the observations did not exceed,
// nil when there are none.
func (l latencies) quantile(q float64) *float64 {
	all := int64(0)
	for _, n := range l.counts {
		all += n
	}
	rank := int64(math.Ceil(q * float64(all)))
	for _, i := range slices.Sorted(maps.Keys(l.counts)) {
		if rank -= l.counts[i]; rank <= 0 {
			middle := math.Exp2((float64(i) - 0.5) * math.Exp2(-float64(l.schema)))
			seconds := math.Round(middle*1e6) / 1e6
			return &seconds
		}
	}
	return nil
}
