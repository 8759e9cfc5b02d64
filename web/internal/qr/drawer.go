package qr

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"keypool/internal/slots"
)

// drawPatience is how long a request for a QR code waits for its turn.
const drawPatience = time.Second

// Drawer draws QR codes, a few at a time. A drawing needs about 1.3 MB of memory and some
// milliseconds of a processor, so a client that requests many QR codes could otherwise slow down
// the redirects. Draw may be called concurrently.
type Drawer struct{ turns *slots.Slots[netip.Prefix] }

// NewDrawer returns a drawer that uses at most half of the processors, but at least one processor.
func NewDrawer() *Drawer {
	return &Drawer{turns: slots.New[netip.Prefix](max(1, runtime.GOMAXPROCS(0)/2))}
}

// Draw encodes text as a QR code, passes the code to the function image, and returns the result. Draw waits at most
// drawPatience for its turn, and fails with [slots.ErrBusy] if its turn does not come. One client has at most
// half of the turns, but at least one.
func (d *Drawer) Draw(ctx context.Context, client netip.Prefix, text string, level Level, image func(*Code) ([]byte, error)) ([]byte, error) {
	end, err := d.turns.Begin(ctx, client, drawPatience)
	if err != nil {
		return nil, fmt.Errorf("draw a QR code: %w", err)
	}
	defer end()
	code, err := Encode(text, level)
	if err != nil {
		return nil, err
	}
	return image(code)
}
