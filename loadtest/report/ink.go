package report

import (
	"fmt"
	"image/color"
	"strings"
)

// ink is a colour of a chart by its part. What it looks like is up to the page, in the
// light and in the dark: it is drawn as a colour that nobody sees, which then makes room
// for a variable of the style sheet.
type ink uint8

const (
	inkText ink = iota
	inkAxis
	inkGrid
	inkGround // behind names, so that they can be read on a line
	inkMark
	inkSeries // the first of as many as the style sheet has
)

// hues is how many series have a colour of their own; then they begin again.
const hues = 6

// inkOf gives the colour of the series with an index.
func inkOf(series int) ink { return inkSeries + ink(series%hues) }

// RGBA makes it a color.Color.
func (i ink) RGBA() (r, g, b, a uint32) {
	return color.RGBA{R: 0xFF, G: 0x00, B: byte(i) * 0x11, A: 0xFF}.RGBA()
}

// Variable is its name in the style sheet.
func (i ink) Variable() string {
	if i >= inkSeries {
		return fmt.Sprintf("--series-%d", i-inkSeries)
	}
	return "--" + [...]string{"text", "axis", "grid", "ground", "mark"}[i]
}

// repaint puts the variables where the inks are.
func repaint(svg string) string {
	var pairs []string
	for i := range inkSeries + hues {
		drawn := fmt.Sprintf(":#FF00%02X", byte(i)*0x11)
		pairs = append(pairs, drawn, ":var("+i.Variable()+")")
	}
	return strings.NewReplacer(pairs...).Replace(svg)
}
