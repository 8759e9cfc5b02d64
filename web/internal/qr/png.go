package qr

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
)

// TooSmallError reports that an image is too small: one side has fewer pixels than the code with its margin
// has modules.
type TooSmallError struct {
	Least int // the smallest size that fits the code and its margin, in pixels
}

func (e *TooSmallError) Error() string {
	return fmt.Sprintf("a QR code with this margin needs at least %d pixels a side", e.Least)
}

// PNG returns the code as a PNG image with size pixels a side. All modules are
// squares of the same size, a whole number of pixels. The remaining pixels widen the margin. PNG
// fails with a *TooSmallError if a module would be smaller than a pixel.
func (c *Code) PNG(size, margin int) ([]byte, error) {
	width := c.width(margin)
	scale := size / width
	if scale < 1 {
		return nil, &TooSmallError{Least: width}
	}
	p := newPicture(c, size, scale)
	var buf bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&buf, p); err != nil {
		return nil, fmt.Errorf("encode a PNG image: %w", err)
	}
	return buf.Bytes(), nil
}

// picture is an image of a code. It computes each pixel on demand, so the image needs
// no memory for its pixels. It implements [image.PalettedImage], and package png uses one bit per
// pixel because the palette has two colours.
type picture struct {
	code    *Code
	modules []int // maps a horizontal or vertical position in pixels to a position in modules, or to -1 in the margin
}

func newPicture(c *Code, size, scale int) *picture {
	p := &picture{code: c, modules: make([]int, size)}
	first := (size - scale*c.side) / 2
	for i := range p.modules {
		p.modules[i] = -1
		if i >= first && i < first+scale*c.side {
			p.modules[i] = (i - first) / scale
		}
	}
	return p
}

// ColorModel implements [image.Image].
func (*picture) ColorModel() color.Model { return color.Palette{color.White, color.Black} }

// Bounds implements [image.Image].
func (p *picture) Bounds() image.Rectangle { return image.Rect(0, 0, len(p.modules), len(p.modules)) }

// At implements [image.Image].
func (p *picture) At(x, y int) color.Color {
	if p.ColorIndexAt(x, y) == 1 {
		return color.Black
	}
	return color.White
}

// ColorIndexAt implements [image.PalettedImage].
func (p *picture) ColorIndexAt(x, y int) uint8 {
	if p.code.isDark(p.modules[x], p.modules[y]) {
		return 1
	}
	return 0
}
