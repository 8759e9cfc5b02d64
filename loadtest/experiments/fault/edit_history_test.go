package fault

import (
	"testing"
	"time"
)

func TestDelayOfOldAnswerBeginsWhenNextChangeIsAcknowledged(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	h := &history{states: []state{
		{url: "first", acked: at(1)},
		{url: "unanswered"},
		{url: "second", acked: at(3)},
		{url: gone},
		{url: gone, acked: at(6)},
	}}
	for _, tt := range []struct {
		url   string
		began int
		late  time.Duration
		known bool
	}{
		{"first", 2, 0, true},
		{"unanswered", 2, 0, true},
		{"first", 4, time.Second, true},
		{"unanswered", 4, time.Second, true},
		{"second", 5, 0, true},
		{"first", 5, 2 * time.Second, true},
		{gone, 5, 0, true},
		{gone, 9, 0, true},
		{"second", 9, 3 * time.Second, true},
		{"of another link", 9, 0, false},
	} {
		late, known := h.late(tt.url, at(tt.began))
		if known != tt.known || known && late != tt.late {
			t.Errorf("late(%q) at second %d = %v, %t; want %v, %t", tt.url, tt.began, late, known, tt.late, tt.known)
		}
	}
}
