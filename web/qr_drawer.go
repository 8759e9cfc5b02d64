package web

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"keypool/shortener"
	"keypool/web/internal/problem"
	"keypool/web/internal/qr"
)

// drawPatience is how long a request for a QR code waits for its turn.
const drawPatience = time.Second

// errDrawing is the cause of the 503 of a request that waited in vain.
var errDrawing = errors.New("too many QR codes are being drawn")

// drawer draws QR codes, a few at a time. A drawing needs about 1.3 MB of memory and some
// milliseconds of a processor, so without a limit a client could slow down the redirects. Its
// method may be called concurrently.
type drawer struct {
	turns chan struct{} // has an element for each drawing in progress
}

// newDrawer returns a drawer that uses at most half of the processors.
func newDrawer() *drawer {
	return &drawer{turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// draw returns the image of the QR code of text. It blocks for at most drawPatience before it
// draws, and then fails with a *shortener.UnavailableError.
func (d *drawer) draw(ctx context.Context, text, suffix string, o qrOptions) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, drawPatience, errDrawing)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
		return o.draw(text, suffix)
	case <-ctx.Done():
		return nil, &shortener.UnavailableError{RetryAfter: time.Second, Err: context.Cause(ctx)}
	}
}

// draw returns the image of the QR code of text.
func (o *qrOptions) draw(text, suffix string) ([]byte, error) {
	drawn, err := qr.Encode(text, o.level)
	if err != nil {
		return nil, err
	}
	if suffix == suffixSVG {
		return drawn.SVG(o.size, o.margin), nil
	}
	image, err := drawn.PNG(o.size, o.margin)
	if small, ok := errors.AsType[*qr.TooSmallError](err); ok {
		return nil, problem.Malformed(fmt.Sprintf("The parameter size must be at least %d for this link with ec %s and margin %d.", small.Least, o.level, o.margin))
	}
	return image, err
}
