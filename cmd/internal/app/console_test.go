package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogShowsDurationsWithTheirUnit(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": `"after":"10ms"`, "text": "after=10ms"} {
		var out bytes.Buffer
		NewLogger(&out, slog.LevelInfo, format).Info("stopped", slog.Duration("after", 10_149_598*time.Nanosecond))
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log in the format %s is %s, want %s", format, out.String(), want)
		}
	}
}
