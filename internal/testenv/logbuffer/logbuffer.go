// Package logbuffer collects the log of a program under test.
package logbuffer

import (
	"bytes"
	"sync"
)

// Buffer is a log that a test reads while the program writes it. The zero value is an empty
// log. Its methods are safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns everything that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
