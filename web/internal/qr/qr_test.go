package qr

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const text = "https://sho.rt/7hQ2xK"

func encode(t testing.TB, text string, level Level) *Code {
	t.Helper()
	c, err := Encode(text, level)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encodePNG(t testing.TB, c *Code, size, margin int) []byte {
	t.Helper()
	image, err := c.PNG(size, margin)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// An independent reader decodes each image to the text.
func TestIndependentReaderDecodesQRCode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("zbarimg"); err != nil {
		t.Fatalf("this test needs a reader of QR codes: install zbar-tools (apt-get install zbar-tools): %v", err)
	}
	long := "https://" + strings.Repeat("a.", 126) + "b:65535/0123456789abcdefghijkl" // the longest short URL
	for _, c := range []struct {
		text         string
		level        Level
		size, margin int
	}{
		{text, L, 64, 4}, {text, M, 64, 4}, {text, Q, 100, 4}, {text, H, 99, 4}, {text, M, 256, 4}, {text, M, 257, 4},
		{text, H, 2048, 16}, {text, L, 2048, 1}, {long, L, 512, 4}, {long, H, 1023, 4}, {"HTTP://X.Y/1", Q, 128, 4},
	} {
		name := fmt.Sprintf("%d-%s-%d-%d", len(c.text), c.level, c.size, c.margin)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "code.png")
			if err := os.WriteFile(file, encodePNG(t, encode(t, c.text, c.level), c.size, c.margin), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "zbarimg", "--quiet", "--raw", file).Output()
			if err != nil || strings.TrimSuffix(string(out), "\n") != c.text {
				t.Errorf("zbarimg reads %q: %v", out, err)
			}
		})
	}
}

// A PNG has exactly the size that was asked for. Each module is a square of the same number of
// pixels, and the margin has at least the width that was asked for.
func TestPNGModulesConsistOfWholePixels(t *testing.T) {
	t.Parallel()
	for size := 64; size <= 200; size++ {
		c, margin := encode(t, text, M), size%17
		drawn, err := png.Decode(bytes.NewReader(encodePNG(t, c, size, margin)))
		if err != nil {
			t.Fatal(err)
		}
		if b := drawn.Bounds(); b.Dx() != size || b.Dy() != size {
			t.Fatalf("the image of size %d has the bounds %v", size, b)
		}
		scale := size / (c.side + 2*margin)
		before := (size - scale*c.side) / 2
		if before < scale*margin {
			t.Errorf("the margin of size %d is %d pixels, want at least %d modules of %d pixels", size, before, margin, scale)
		}
		for i := range size * size {
			x, y := i%size, i/size
			inside := x >= before && y >= before
			want := inside && c.isDark((x-before)/scale, (y-before)/scale)
			if r, _, _, _ := drawn.At(x, y).RGBA(); (r == 0) != want {
				t.Fatalf("size %d: the pixel %d,%d is dark: %v, want %v", size, x, y, !want, want)
			}
		}
	}
}

// If a code does not fit into an image, the error contains the smallest size that is sufficient. The
// code fits into an image of this size.
func TestPNGErrorReportsSmallestSizeThatFits(t *testing.T) {
	t.Parallel()
	c := encode(t, strings.Repeat("a", 250), H)
	_, err := c.PNG(64, 4)
	small, ok := errors.AsType[*TooSmallError](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	if _, err := c.PNG(small.Least-1, 4); err == nil {
		t.Errorf("a code fits %d pixels", small.Least-1)
	}
	encodePNG(t, c, small.Least, 4)
}

// The SVG has the same dark modules as the code.
func TestSVGDrawsEachDarkModule(t *testing.T) {
	t.Parallel()
	const margin = 3
	c := encode(t, text, Q)
	image := string(c.SVG(300, margin))
	_, path, _ := strings.Cut(image, `<path d="`)
	path, _, _ = strings.Cut(path, `"`)
	drawn := make([]bool, len(c.dark))
	for rectangle := range strings.SplitSeq(strings.TrimSuffix(path, "z"), "z") {
		var x, y, length, back int
		if _, err := fmt.Sscanf(rectangle, "M%d %dh%dv1h-%d", &x, &y, &length, &back); err != nil || back != length {
			t.Fatalf("the path has the rectangle %q: %v", rectangle, err)
		}
		for i := range length {
			drawn[(y-margin)*c.side+x-margin+i] = true
		}
	}
	for i := range drawn {
		if drawn[i] != c.dark[i] {
			t.Fatalf("module %d is drawn: %v, want %v", i, drawn[i], c.dark[i])
		}
	}
	if want := fmt.Sprintf(`width="300" height="300" viewBox="0 0 %d %[1]d"`, c.side+2*margin); !strings.Contains(image, want) {
		t.Errorf("the image does not contain %s", want)
	}
}

func TestQREncoderRefusesUnknownLevelAndLongText(t *testing.T) {
	t.Parallel()
	if _, err := Encode(text, "m"); err == nil {
		t.Error("Encode accepts the level m")
	}
	if _, err := Encode(strings.Repeat("a", 4000), L); err == nil {
		t.Error("Encode accepts a text of 4,000 bytes")
	}
	encode(t, strings.Repeat("a", 1273), H)
}

// The largest image has 4 million pixels. PNG allocates at most half a byte for each of them. This test
// is not parallel, because TotalAlloc counts the allocations of the whole process.
func TestLargePNGNeedsLittleMemory(t *testing.T) {
	c := encode(t, text, M)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	encodePNG(t, c, 2048, 4)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("an image of 2,048 pixels a side allocates %d bytes", got)
	}
}

func BenchmarkPNG(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		encodePNG(b, encode(b, text, M), 256, 4)
	}
}

func BenchmarkLargePNG(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		encodePNG(b, encode(b, text, M), 2048, 4)
	}
}
