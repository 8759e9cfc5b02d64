package qr

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// drawPatience is how long a request for a QR code waits for its turn.
const drawPatience = time.Second

// errDrawing is the cause in the BusyError of a request that waited for drawPatience.
var errDrawing = errors.New("too many QR codes are being drawn")

// BusyError reports that a request ended, or waited too long, before its turn. A later request may succeed.
type BusyError struct{ Cause error }

func (e *BusyError) Error() string { return "no QR code was drawn: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Cause }

// Drawer draws QR codes, a few at a time. A drawing needs about 1.3 MB of memory and some
// milliseconds of a processor, so a client that requests many QR codes could otherwise slow down
// the redirects. Draw may be called concurrently.
type Drawer struct {
	turns chan struct{} // has an element for each drawing in progress
}

// NewDrawer returns a drawer that uses at most half of the processors, but at least one processor.
func NewDrawer() *Drawer {
	return &Drawer{turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Draw encodes text as a QR code and returns the image that the function image makes of the code. It waits at most
// drawPatience for its turn, and fails with a [*BusyError] if its turn does not come.
func (d *Drawer) Draw(ctx context.Context, text string, level Level, image func(*Code) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, drawPatience, errDrawing)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return nil, &BusyError{Cause: context.Cause(ctx)}
	}
	code, err := Encode(text, level)
	if err != nil {
		return nil, err
	}
	return image(code)
}
