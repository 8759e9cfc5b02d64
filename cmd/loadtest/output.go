package main

import (
	"fmt"
	"io"
	"time"

	"keypool/loadtest"
)

// output is where the program writes to.
type output struct {
	stdout, stderr io.Writer
}

// everySecond writes a line to stderr each second until the returned function, which
// is to be called once, is; that one waits for a line that is being written.
func (o output) everySecond(line func() string) (stop func()) {
	started := time.Now()
	ticker := time.NewTicker(time.Second)
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// A progress line that cannot be written is no reason to end the run.
				_, _ = fmt.Fprintf(o.stderr, "%4.0fs  %s\n", time.Since(started).Seconds(), line())
			case <-stopping:
				return
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

func progress(f loadtest.Figures) string {
	return fmt.Sprintf("sent %d  acknowledged %d  refused %d  unknown %d  unsent %d  %v",
		f.Sent, f.Acknowledged, f.Refused, f.Unknown, f.Unsent, f.Latency)
}
