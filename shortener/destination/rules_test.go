package destination

import (
	"strconv"
	"testing"
)

// blockedHosts is the size of a large public block list.
const blockedHosts = 1_000_000

func benchRules(tb testing.TB, hosts int) *Rules {
	tb.Helper()
	set := &Hosts{}
	for i := range hosts {
		set.Add("host" + strconv.Itoa(i) + ".evil.example")
	}
	var r Rules
	r.Block(set)
	return &r
}

const benchURL = "https://www.example.com/some/path/of/ordinary/length?with=a&query=that&is=not&very=long"

// BenchmarkBlocks measures the time that the block list adds to a redirect.
func BenchmarkBlocks(b *testing.B) {
	for _, hosts := range []int{0, 1000, blockedHosts} {
		r := benchRules(b, hosts)
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r.Blocks(benchURL) {
					b.Fatal("the URL is blocked")
				}
			}
		})
	}
}

// This test is not parallel, because AllocsPerRun counts the allocations of the whole process.
func TestCheckOfBlockListAllocatesNoMemory(t *testing.T) {
	r := benchRules(t, 1000)
	for _, url := range []string{benchURL, "http://192.0.2.7:8080/", "http://0x7f.1", "https://[2001:db8::1]:443/", "https://host1.evil.example/"} {
		if got := testing.AllocsPerRun(100, func() { r.Blocks(url) }); got > 0 {
			t.Errorf("%s: %v allocations, want none", url, got)
		}
	}
}
