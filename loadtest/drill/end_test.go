//go:build drill

package drill

import (
	"time"

	"keypool/loadtest"
)

// end judges the links of all loads through every server, after a restart, so that no
// cache answers for the store; then it stops them. The accounts are closed while they
// run and when they do not. It returns what the last audit says.
func end(d *drill, census loadtest.Census, servers []*service, loads ...*traffic) accounts {
	d.Helper()
	servers[0].audit()
	for _, s := range servers {
		s.restart()
		judge(d, s, census, loads...)
	}
	for _, s := range servers {
		s.stop()
	}
	return servers[0].audit()
}

// happened counts a fault, which must have happened for the row to say anything.
func happened(d *drill, n int, what string) {
	d.Helper()
	d.struck(n)
	if n == 0 {
		d.Fatalf("no %s: the row says nothing", what)
	}
}

// total is how many keys are abandoned for whatever reason.
func total(abandoned map[string]int64) (sum int64) {
	for _, n := range abandoned {
		sum += n
	}
	return sum
}

// happens waits until ok is true and says whether that was within limit. Unlike with
// await the drill goes on when it was not.
func happens(d *drill, limit time.Duration, ok func() bool) bool {
	d.Helper()
	for begin := time.Now(); !ok(); pass(d, poll) {
		if time.Since(begin) > limit {
			return false
		}
	}
	return true
}
