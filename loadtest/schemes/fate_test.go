package schemes

import (
	"testing"
	"time"

	"keypool/loadtest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// record is a load of one creation a second, told by a letter each: a link, one by the
// fallback, a refusal, a rude one, silence.
func record(start time.Time, letters string) []loadtest.Entry {
	outcomes := map[rune]loadtest.Outcome{
		'l': {State: loadtest.Acknowledged, Code: "own"},
		'f': {State: loadtest.Acknowledged, Code: "fallback"},
		'r': {State: loadtest.Refused, Detail: "503 Service Unavailable no keys", RetryAfter: "1"},
		'x': {State: loadtest.Refused, Detail: "500 Internal Server Error"},
		'-': {State: loadtest.Unknown, Detail: "EOF"},
	}
	var entries []loadtest.Entry
	for i, letter := range letters {
		entries = append(entries, loadtest.Entry{N: i, At: start.Add(time.Duration(i) * time.Second), Outcome: outcomes[letter]})
	}
	return entries
}

// Killed when two creations were made, and back after five more.
func TestFate(t *testing.T) {
	t.Parallel()
	start := time.Now()
	lost, back := start.Add(1500*time.Millisecond), start.Add(6500*time.Millisecond)
	polite := []string{"503, Retry-After 1"}
	tests := []struct {
		name, letters string
		want          fate
		polite        bool
	}{
		{"nothing happens", "ll" + "lllll" + "ll", fate{served: 5, local: 5 * time.Second, returned: true}, true},
		{"local keys, then none", "ll" + "llrrr" + "ll", fate{
			served: 2, refused: 3, answers: polite, local: 2500 * time.Millisecond, returned: true,
		}, true},
		{"a fallback", "ll" + "lffff" + "fl", fate{
			served: 1, fallback: 4, local: 1500 * time.Millisecond, back: 500 * time.Millisecond, returned: true,
		}, true},
		{"it does not come back", "ll" + "rrrrr" + "lr", fate{
			refused: 5, answers: polite, local: 500 * time.Millisecond, back: 1500 * time.Millisecond,
		}, true},
		{"rude", "ll" + "r-x--" + "ll", fate{
			refused: 2, unknown: 3, answers: []string{"500", "503, Retry-After 1", "no answer"}, local: 500 * time.Millisecond, returned: true,
		}, false},
		{"silent", "ll" + "-----" + "ll", fate{unknown: 5, answers: []string{"no answer"}, local: 500 * time.Millisecond, returned: true}, false},
		{"what failed by the kill itself", "l-" + "lllll" + "ll", fate{served: 5, local: 5 * time.Second, returned: true}, true},
	}
	for _, tt := range tests {
		got := fateOf(record(start, tt.letters), lost, back, func(code string) bool { return code == "fallback" })
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(fate{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if got.polite() != tt.polite {
			t.Errorf("%s: polite %v", tt.name, got.polite())
		}
	}
	got := fateOf(record(start, "ll"+"lfr-r"+"ll"), lost, back, func(code string) bool { return code == "fallback" })
	if want := "20 % served, 20 % by the fallback, 40 % refused, 20 % without an answer"; got.String() != want {
		t.Errorf("%q, want %q", got, want)
	}
}
