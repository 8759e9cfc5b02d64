//go:build drill

package drill

import (
	"bufio"
	"strconv"
	"strings"
)

// metric is the sum of the samples of a metric that a program exports, 0 when it has none.
func (s *service) metric(name string) (sum float64) {
	s.d.Helper()
	res, err := s.get("/metrics")
	if err != nil {
		s.d.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		series, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.d.Fatalf("metric %q: %v", lines.Text(), err)
		}
		sum += value
	}
	if err := lines.Err(); err != nil {
		s.d.Fatal(err)
	}
	return sum
}
