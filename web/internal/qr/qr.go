// Package qr draws QR codes (ISO/IEC 18004) as SVG and as PNG.
//
// A module is one of the squares of a QR code. The margin is the empty border around the
// modules; its width is a number of modules. Readers expect a margin of four modules.
//
// Invariants:
//
//   - a PNG has exactly the size that the caller asks for, and each module is a square of
//     whole pixels;
//   - an image contains no text of the request, so it cannot contain a script;
//   - an image needs no memory for its pixels, except for the encoded image itself.
package qr

import (
	"fmt"
	"image/color"

	"github.com/boombuler/barcode"
	"github.com/boombuler/barcode/qr"
)

// Level is the error correction level of a QR code. It determines which share of the code may be
// damaged: 7 % with L, 15 % with M, 25 % with Q and 30 % with H.
type Level string

// The levels of error correction.
const (
	L Level = "L"
	M Level = "M"
	Q Level = "Q"
	H Level = "H"
)

// ParseLevel returns the level with this name. The names are case-sensitive.
func ParseLevel(name string) (Level, bool) {
	_, ok := Level(name).correction()
	return Level(name), ok
}

func (l Level) correction() (level qr.ErrorCorrectionLevel, ok bool) {
	switch l {
	case L:
		return qr.L, true
	case M:
		return qr.M, true
	case Q:
		return qr.Q, true
	case H:
		return qr.H, true
	}
	return 0, false
}

// Code is a QR code without a margin. Its methods may be called concurrently.
type Code struct {
	side int    // modules per side
	dark []bool // the modules, row by row
}

// Encode returns the smallest QR code with the text. It fails if the level is unknown or if the
// text is too long. The maximum length of a text depends on the level. A text of up to 1,273 bytes
// fits with every level.
func Encode(text string, level Level) (*Code, error) {
	correction, known := level.correction()
	if !known {
		return nil, fmt.Errorf("unknown level of error correction %q", level)
	}
	drawn, err := qr.EncodeWithColor(text, correction, qr.Auto, barcode.ColorScheme16)
	if err != nil {
		return nil, fmt.Errorf("encode %d bytes as a QR code of level %s: %w", len(text), level, err)
	}
	c := &Code{side: drawn.Bounds().Dx()}
	c.dark = make([]bool, c.side*c.side)
	for i := range c.dark {
		c.dark[i] = drawn.At(i%c.side, i/c.side) == color.Black
	}
	return c, nil
}

// width returns the modules per side, with a margin on both sides.
func (c *Code) width(margin int) int { return c.side + 2*margin }

// isDark reports whether the module at column x and row y is dark. A module outside of the
// code belongs to the margin, which is light.
func (c *Code) isDark(x, y int) bool {
	return x >= 0 && x < c.side && y >= 0 && y < c.side && c.dark[y*c.side+x]
}
