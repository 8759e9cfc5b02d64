package admin

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// latencies counts the observations in each bucket of a native histogram. Bucket i holds
// durations above b^(i-1) and up to b^i seconds, where b is 2^(2^-schema).
type latencies struct {
	schema int32
	counts map[int32]int64
}

// readLatencies reads h, which may be nil.
func readLatencies(h prometheus.Histogram) latencies {
	if h == nil {
		return latencies{}
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		panic(err) // only an invalid metric fails, and the registry refuses invalid metrics
	}
	return decodeLatencies(m.GetHistogram())
}

// decodeLatencies decodes the spans of buckets in h. The encoded value of a bucket is the
// difference between its count and the count of the previous bucket.
func decodeLatencies(h *dto.Histogram) latencies {
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

// since returns the observations in l that are not in old, an older state of the same
// histogram.
func (l latencies) since(old latencies) latencies {
	fresh := latencies{schema: l.schema, counts: make(map[int32]int64)}
	for i, n := range l.counts {
		if n -= old.counts[i]; n > 0 {
			fresh.counts[i] = n
		}
	}
	return fresh
}

// quantile returns the duration in seconds that a fraction q of the observations did not exceed. It
// returns nil if there are no observations. The result is the middle of the bucket that contains the
// exact value, so its error is at most half a bucket.
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
