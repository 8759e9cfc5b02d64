package web

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keypool/web/client"
)

// minContrast is the contrast that WCAG 2.2 requires of text (1.4.3).
const minContrast = 4.5

// colours are the colours of one declaration in the light and in the dark scheme.
type colours [2]string

// stylesheet holds the colours of texts and backgrounds in CSS. parseStyle understands only the part of
// CSS that the stylesheets of this service use.
type stylesheet struct {
	variables map[string]colours
	// pairs has a key "text on background" for each rule that sets both colours.
	pairs map[string][2]colours
	// texts has the colours of the rules that set only the colour of the text. grounds has the colours
	// of the rules that set only the colour of the background.
	texts, grounds map[string]colours
}

var (
	cssVariable = regexp.MustCompile(`(--[a-z-]+): (light-dark\([^)]*\)|#[0-9a-f]+);`)
	cssRule     = regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`)
	cssText     = regexp.MustCompile(`(?:^|[;\s])color: ([^;]+)`)
	cssGround   = regexp.MustCompile(`(?:^|[;\s])background(?:-color)?: ([^;]+)`)
	cssColour   = regexp.MustCompile(`var\((--[a-z-]+)\)|light-dark\((#[0-9a-f]+), (#[0-9a-f]+|transparent)\)|#[0-9a-f]{3,6}\b`)
)

func parseStyle(t *testing.T, css string) *stylesheet {
	t.Helper()
	s := &stylesheet{map[string]colours{}, map[string][2]colours{}, map[string]colours{}, map[string]colours{}}
	for _, v := range cssVariable.FindAllStringSubmatch(css, -1) {
		s.variables[v[1]] = s.colours(t, v[2])
	}
	for _, rule := range cssRule.FindAllStringSubmatch(css, -1) {
		if strings.Contains(rule[1], ".brand svg") {
			continue // the colour of a drawing
		}
		var text, ground []string
		if m := cssText.FindStringSubmatch(rule[2]); len(m) > 1 && m[1] != "inherit" {
			text = []string{m[1]}
		}
		if m := cssGround.FindStringSubmatch(rule[2]); len(m) > 1 && m[1] != "none" {
			ground = cssColour.FindAllString(m[1], -1) // a gradient has several colours
		}
		s.add(t, text, ground)
	}
	return s
}

func (s *stylesheet) add(t *testing.T, text, ground []string) {
	t.Helper()
	for _, g := range ground {
		if len(text) == 0 {
			s.grounds[g] = s.colours(t, g)
			continue
		}
		s.pairs[text[0]+" on "+g] = [2]colours{s.colours(t, text[0]), s.colours(t, g)}
	}
	if len(ground) == 0 && len(text) > 0 {
		s.texts[text[0]] = s.colours(t, text[0])
	}
}

// colours returns the colours of a value. A value that is not a colour fails the test.
func (s *stylesheet) colours(t *testing.T, value string) colours {
	t.Helper()
	m := cssColour.FindStringSubmatch(value)
	switch {
	case m == nil:
		t.Fatalf("%q is not a colour that this test understands", value)
	case m[1] != "":
		known, ok := s.variables[m[1]]
		if !ok {
			t.Fatalf("the variable %s is not defined", m[1])
		}
		return known
	case m[2] != "":
		return colours{m[2], m[3]}
	}
	return colours{m[0], m[0]}
}

// all returns each pair of a text and a background that can meet on a page.
func (s *stylesheet) all() map[string][2]colours {
	all := maps.Clone(s.pairs)
	grounds := maps.Clone(s.grounds)
	for name, pair := range s.pairs {
		if text, ground, _ := strings.Cut(name, " on "); text == "var(--ink)" {
			grounds[ground] = pair[1] // the background of an area whose texts may have other colours
		}
	}
	for text, t := range s.texts {
		for ground, g := range grounds {
			all[text+" on "+ground] = [2]colours{t, g}
		}
	}
	return all
}

// luminance is the relative luminance of a colour by WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	digits := strings.TrimPrefix(colour, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 6 {
		t.Fatalf("%q is not a colour of three or six digits", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		c := float64(n>>(8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	l := []float64{luminance(t, a), luminance(t, b)}
	slices.Sort(l)
	return (l[1] + 0.05) / (l[0] + 0.05)
}

// Each text has enough contrast on each background on which it may appear, in both colour schemes.
func TestStyleHasEnoughContrast(t *testing.T) {
	t.Parallel()
	pairs := parseStyle(t, string(newPages(client.Limits{}, "", nil).shell.Style)).all()
	if len(pairs) < 15 {
		t.Errorf("the test found only %d pairs: %q", len(pairs), slices.Sorted(maps.Keys(pairs)))
	}
	for name, pair := range pairs {
		for i, scheme := range []string{"light", "dark"} {
			if c := contrast(t, pair[0][i], pair[1][i]); c < minContrast {
				t.Errorf("%s scheme: %s has a contrast of %.2f, want at least %v", scheme, name, c, minContrast)
			}
		}
	}
}

// This test checks the functions of TestStyleHasEnoughContrast: parseStyle and contrast must find a text whose
// contrast is too low on one background in one scheme.
func TestContrastCheckFindsTextWithLowContrast(t *testing.T) {
	t.Parallel()
	const css = `:root { --a: light-dark(#000, #fff); --b: #fff; --c: light-dark(#fff, #767676); } p { color: var(--a); } body { background: radial-gradient(at 0, light-dark(#fff, #777), transparent) var(--c); }
		button { color: var(--b); background: #767676; }`
	weak := map[string]bool{}
	for name, pair := range parseStyle(t, css).all() {
		for i := range pair[0] {
			if contrast(t, pair[0][i], pair[1][i]) < minContrast {
				weak[name] = true
			}
		}
	}
	if len(weak) != 1 || !weak["var(--a) on light-dark(#fff, #777)"] {
		t.Errorf("the weak pairs are %v", weak)
	}
}
