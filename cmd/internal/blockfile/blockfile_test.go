package blockfile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keypool/internal/testenv/logbuffer"
	"keypool/shortener/destination"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseReadsOneHostPerLine(t *testing.T) {
	t.Parallel()
	hosts, err := parseHosts("\ufeff# comment\n\n  Evil.Example. # another\r\n*.wild.example\n.dot.example\nbücher.example\n0x7f.1\n[::1]\n2001:db8::1\nlast.example")
	if err != nil || hosts.Len() != 8 {
		t.Errorf("parseHosts found %d hosts, %v; want 8", hosts.Len(), err)
	}
	if hosts, err := parseHosts("# empty\n"); err != nil || hosts.Len() != 0 {
		t.Errorf("parseHosts of an empty list found %d hosts, %v", hosts.Len(), err)
	}
	for _, line := range []string{
		"https://evil.example", "evil.example:443", "evil.example/path", "0.0.0.0 evil.example", "*evil.example", "*.*.example", "evil.*", ".",
		"*", "*.", "..example", "10.0.0.0/8", "192.0.2.300", "||evil.example^", "a..b",
	} {
		if _, err := parseHosts("good.example\n\n" + line + "\n"); err == nil || !strings.Contains(err.Error(), "line 3 is") ||
			!strings.Contains(err.Error(), "takes a host name or an IP address") || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseHosts of %q: error %v; want an error without line breaks that says \"line 3 is\" and what a line takes", line, err)
		}
	}
}

// list returns a block list with n hosts.
func list(n int) string {
	var content strings.Builder
	for i := range n {
		fmt.Fprintf(&content, "host%d.example\n", i)
	}
	return content.String()
}

// BenchmarkParse measures the time until a list is ready for use, without the two polls that find it.
func BenchmarkParse(b *testing.B) {
	for _, hosts := range []int{1_000_000, 3_000_000} {
		content := list(hosts)
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := parseHosts(content); err != nil || got.Len() != hosts {
					b.Fatalf("parseHosts found %d hosts, %v", got.Len(), err)
				}
			}
		})
	}
}

// An allocation for each host would make the garbage collector run while a large list is read. This test is not parallel,
// because AllocsPerRun counts the allocations of the whole process.
func TestParseDoesNotAllocateForEachHost(t *testing.T) {
	const hosts = 10_000
	content := list(hosts)
	got := testing.AllocsPerRun(5, func() {
		if _, err := parseHosts(content); err != nil {
			t.Error(err)
		}
	})
	if got > hosts/20 {
		t.Errorf("parseHosts of %d hosts makes %v allocations, want at most %d", hosts, got, hosts/20)
	}
}

// world is a block list under test, in a synctest bubble. The files are real. The polls use the fake
// clock of the bubble.
type world struct {
	t     *testing.T
	path  string
	log   logbuffer.Buffer
	lists []int        // lengths of the lists that came into use
	reads atomic.Int64 // number of times that the file was read
	fail  atomic.Bool  // whether every read fails
	clock time.Time    // time of modification that the last write set
}

// run opens a file with the content, and calls the function test while the file is polled.
func run(t *testing.T, content string, test func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, path: filepath.Join(dir, "hosts"), clock: time.Now()}
		w.write(w.path, content)
		f, err := Open(w.path, slog.New(slog.NewTextHandler(&w.log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		f.load = w.load
		use := func(h *destination.Hosts) { w.lists = append(w.lists, h.Len()) }
		use(f.List())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			if err := f.Run(ctx, use); err != nil {
				t.Error(err)
			}
		}()
		test(w)
	})
}

// load reads the file as a server does, and counts the reads.
func (w *world) load(path string) (string, error) {
	w.reads.Add(1)
	if w.fail.Load() {
		return "", syscall.EIO
	}
	return readFile(path)
}

// write writes a file. Its time of modification is later than the time of each earlier write.
func (w *world) write(path, content string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.clock = w.clock.Add(time.Second)
	if err := os.Chtimes(path, w.clock, w.clock); err != nil {
		w.t.Fatal(err)
	}
}

// replace replaces the file by a rename.
func (w *world) replace(content string) {
	w.t.Helper()
	w.write(w.path+".new", content)
	if err := os.Rename(w.path+".new", w.path); err != nil {
		w.t.Fatal(err)
	}
}

// polls waits for n polls.
func (w *world) polls(n int) {
	time.Sleep(time.Duration(n) * pollInterval)
	synctest.Wait()
}

// want checks the length of the list in use, and the number of lists that came into use so far.
func (w *world) want(hosts, lists int) {
	w.t.Helper()
	if len(w.lists) != lists || w.lists[lists-1] != hosts {
		w.t.Errorf("the lists in use had %v hosts; want %d lists, the last one with %d hosts", w.lists, lists, hosts)
	}
}

// wantLogged checks how many log lines contain text.
func (w *world) wantLogged(text string, lines int) {
	w.t.Helper()
	if got := strings.Count(w.log.String(), text); got != lines {
		w.t.Errorf("%d log lines contain %q, want %d:\n%s", got, text, lines, w.log.String())
	}
}

func TestChangedBlockFileIsReloaded(t *testing.T) {
	t.Parallel()
	run(t, "a.example\n", func(w *world) {
		w.want(1, 1)
		w.polls(10)
		w.want(1, 1) // while the file is unchanged, no other list comes into use
		w.write(w.path, "a.example\nb.example\n")
		w.polls(2)
		w.want(2, 2)
		w.replace("a.example\nb.example\nc.example\n")
		w.polls(2)
		w.want(3, 3)
		w.write(w.path, "# no hosts\n")
		w.polls(2)
		w.want(0, 4)
		w.wantLogged("block list in use", 4)
	})
}

// A file that is moved over the block file may have the same size and the same time of modification. Then only the inode
// number differs.
func TestReplacedBlockFileOfSameSizeAndTimeIsReloaded(t *testing.T) {
	t.Parallel()
	run(t, "a.example\n", func(w *world) {
		w.clock = w.clock.Add(-time.Second)
		w.replace("b.c\n#xxxx\n")
		w.polls(2)
		w.want(1, 2)
	})
}

func TestHalfWrittenBlockFileIsNotLoaded(t *testing.T) {
	t.Parallel()
	run(t, "a.example\nb.example\n", func(w *world) {
		content := ""
		for range 5 {
			w.write(w.path, content)
			w.polls(1)
			content += "c.example\nd.exam"
			w.want(2, 1)
		}
		w.write(w.path, "c.example\nd.example\ne.example\n")
		w.polls(2)
		w.want(3, 2)
	})
}

// While the file cannot be used, the last list stays in use. The log has one line when the file becomes
// unusable and one line when it is usable again.
func TestLastBlockListRemainsInUseIfFileIsUnusable(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(w *world) error{
		"file is removed":                 func(w *world) error { return os.Remove(w.path) },
		"file is replaced by a directory": func(w *world) error { return replaceByDirectory(w.path) },
		"file is empty":                   func(w *world) error { w.write(w.path, ""); return nil },
		"file has an invalid line":        func(w *world) error { w.replace("a.example\nhttps://b.example/\n"); return nil },
		"file is too large":               func(w *world) error { return os.Truncate(w.path, maxSize+1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, "a.example\n", func(w *world) {
				if err := damage(w); err != nil {
					t.Fatal(err)
				}
				w.polls(6)
				w.want(1, 1)
				w.wantLogged("the last list stays in use", 1)
				if err := os.RemoveAll(w.path); err != nil {
					t.Fatal(err)
				}
				w.replace("a.example\nb.example\n")
				w.polls(2)
				w.want(2, 2)
				w.wantLogged("readable again", 1)
			})
		})
	}
}

// A shell empties the file before a slow program writes it. Until the program has written the new list, the last list
// stays in use.
func TestEmptyBlockFileDoesNotReplaceListWithHosts(t *testing.T) {
	t.Parallel()
	run(t, "", func(w *world) {
		w.want(0, 1) // at the start, the server accepts an empty file
		w.write(w.path, "")
		w.polls(2)
		w.wantLogged("the last list stays in use", 0) // an empty file may replace an empty list
		w.write(w.path, "a.example\n")
		w.polls(2)
		w.write(w.path, "")
		w.polls(20)
		w.wantLogged("# no hosts", 1)
		w.write(w.path, "a.example\nb.example\n")
		w.polls(2)
		w.want(2, len(w.lists))
		w.wantLogged("hosts=0", 2)
		w.wantLogged("readable again", 1)
	})
}

// An invalid version is read once, because it may be large.
func TestInvalidBlockFileVersionIsReadOnce(t *testing.T) {
	t.Parallel()
	run(t, "a.example\n", func(w *world) {
		for i := range 3 {
			w.replace("a.example\nhttps://b.example/\n")
			w.polls(20)
			if reads := w.reads.Load(); reads != int64(i+1) {
				t.Errorf("%d invalid versions were read %d times", i+1, reads)
			}
		}
		w.want(1, 1)
		w.wantLogged("the last list stays in use", 1)
		w.wantLogged("readable again", 0)
		w.write(w.path, "a.example\nb.example\n")
		w.polls(2)
		w.want(2, 2)
	})
}

// If the read of a version fails, the next poll reads the version again.
func TestFailedBlockFileReadIsRepeated(t *testing.T) {
	t.Parallel()
	run(t, "a.example\n", func(w *world) {
		w.fail.Store(true)
		w.write(w.path, "a.example\nb.example\n")
		w.polls(6)
		w.want(1, 1)
		if reads := w.reads.Load(); reads != 5 { // the first poll only notices the new version; polls 2 to 6 try to read it
			t.Errorf("the file was read %d times in 6 polls, want 5", reads)
		}
		w.wantLogged("the last list stays in use", 1)
		w.fail.Store(false)
		w.polls(1)
		w.want(2, 2)
		w.wantLogged("readable again", 1)
	})
}

func replaceByDirectory(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}

// The log reports the return of a file, although its list has been in use all the time.
func TestReappearanceOfUnchangedBlockFileIsLogged(t *testing.T) {
	t.Parallel()
	run(t, "a.example\n", func(w *world) {
		for i := range 2 {
			if err := os.Rename(w.path, w.path+".away"); err != nil {
				t.Fatal(err)
			}
			w.polls(3)
			w.wantLogged("the last list stays in use", i+1)
			if err := os.Rename(w.path+".away", w.path); err != nil {
				t.Fatal(err)
			}
			w.polls(3)
			w.wantLogged("readable again", i+1)
		}
		w.want(1, 1)
	})
}

func TestOpenFailsIfBlockFileIsUnusable(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("a:b:c"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), bad, os.DevNull} {
		if f, err := Open(path, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("Open(%s) = a list of %d hosts, want an error", path, f.List().Len())
		}
	}
}
