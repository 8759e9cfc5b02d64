package qr

import "strconv"

// SVG returns the code as an SVG image that is size CSS pixels wide and high. It draws one rectangle
// for each group of neighbouring dark modules in a row.
func (c *Code) SVG(size, margin int) []byte {
	side, width := strconv.Itoa(size), strconv.Itoa(c.width(margin))
	b := make([]byte, 0, 256+5*len(c.dark))
	b = append(b, `<svg xmlns="http://www.w3.org/2000/svg" width="`+side+`" height="`+side+`" viewBox="0 0 `+width+` `+width+
		`" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h`+width+`v`+width+`H0z"/><path d="`...)
	for y := range c.side {
		for x := 0; x < c.side; {
			length := c.run(x, y)
			if length > 0 {
				b = appendRun(b, x+margin, y+margin, length)
			}
			x += length + 1 // the module after the run is light
		}
	}
	return append(b, "\"/></svg>\n"...)
}

// run returns the number of neighbouring dark modules in row y from column x on.
func (c *Code) run(x, y int) (length int) {
	for c.isDark(x+length, y) {
		length++
	}
	return length
}

// appendRun appends the path of a rectangle with the height of one module.
func appendRun(b []byte, x, y, length int) []byte {
	b = strconv.AppendInt(append(b, 'M'), int64(x), 10)
	b = strconv.AppendInt(append(b, ' '), int64(y), 10)
	b = strconv.AppendInt(append(b, 'h'), int64(length), 10)
	b = strconv.AppendInt(append(b, "v1h-"...), int64(length), 10)
	return append(b, 'z')
}
