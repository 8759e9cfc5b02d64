package wrk

import (
	"strings"
	"testing"
)

const rightTally = `{"requests":4000,"micros":2000000,"connect":0,"read":0,"write":0,"timeout":0,"status":0}`

func TestParseTally(t *testing.T) {
	t.Parallel()
	got, err := parseTally([]byte("Running 2s test\n  4000 requests in 2.00s\n\n"+rightTally+"\n"), false)
	if err != nil || got.PerSecond() != 2000 {
		t.Errorf("%v a second, error %v; want 2000", got.PerSecond(), err)
	}
	wrong := map[string]string{
		"nothing":     "",
		"no tally":    "Running 2s test\n  4000 requests in 2.00s\n",
		"no requests": strings.Replace(rightTally, "4000", "0", 1),
		"no time":     strings.Replace(rightTally, "2000000", "0", 1),
	}
	for _, failure := range []string{"connect", "read", "write", "timeout", "status"} {
		wrong[failure] = strings.Replace(rightTally, `"`+failure+`":0`, `"`+failure+`":1`, 1)
	}
	for name, out := range wrong {
		if got, err := parseTally([]byte(out), false); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
	refused := strings.Replace(rightTally, `"status":0`, `"status":1`, 1)
	if got, err := parseTally([]byte(refused), true); err != nil || got.Status != 1 {
		t.Errorf("%+v, %v; want a refusal to be counted", got, err)
	}
}
