// Package blockfile reads the block list of a server from a file, and reads the file again when it changes.
//
// The file has one host per line. A host covers its subdomains, so *.example.com and .example.com have the
// same meaning as example.com. A comment begins with # and ends at the end of the line.
//
// Invariant: a list is used only if the whole file was read and each of its lines is valid. Otherwise the last
// list stays in use. An empty file does not replace a list with hosts.
package blockfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"keypool/shortener/destination"
)

const (
	// pollInterval is the time between two checks of the file. The package polls, because a poll also detects
	// a change on a network file system and the replacement of a directory above the file.
	pollInterval = 500 * time.Millisecond
	// maxSize is the maximum size of the file, in bytes. A file of this size has about three million lines of 22 bytes.
	maxSize = 64 << 20
	// shortLine is the length of a line in a list of short host names, in bytes. parseHosts allocates the set of
	// hosts before it reads the lines. The set has room for one host for each shortLine bytes of the file, but for at most one
	// host per line. A set that is too small grows.
	shortLine = 16
)

var (
	errTooLarge   = fmt.Errorf("the file has more than %d bytes", maxSize)
	errNotRegular = errors.New("it is not a regular file")
	errEmpty      = errors.New(`the file is empty; an empty list needs a comment line, for example "# no hosts"`)
)

// File is a block list and the file that it comes from. Only one goroutine may use it at a time.
type File struct {
	path string
	log  *slog.Logger
	load func(path string) (content string, err error) // readFile, except in tests
	list *destination.Hosts                            // the list in use

	used    os.FileInfo // the version of the file whose list is in use
	next    os.FileInfo // the last new version that a poll found; nil if there was none
	invalid os.FileInfo // the last version whose content was refused; nil if there was none
	reason  error       // what is wrong with the invalid version
	failed  string      // error text of the last poll, or "" if the last poll succeeded
}

// Open reads the file at path.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log, load: readFile}
	version, err := f.stat()
	if err != nil {
		return nil, err
	}
	if err := f.read(version); err != nil {
		return nil, err
	}
	f.announce()
	return f, nil
}

// List returns the list that was read last.
func (f *File) List() *destination.Hosts { return f.list }

// Run polls the file until ctx ends, and returns nil. It passes each new list to use. If the file cannot be read or
// has an invalid line, the last list stays in use. If the file is empty, a list with hosts stays in use.
func (f *File) Run(ctx context.Context, use func(*destination.Hosts)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if f.poll() {
				use(f.list)
				f.announce()
			}
		}
	}
}

// poll reads a new version of the file when it finds the version for the second time. At the first time, another
// program may still be writing the file. If the read fails, the next poll reads the version again. If parse refuses the
// content, poll does not read the version again, because the repeated reading of a large list would keep a processor
// busy. poll reports whether there is a new list.
func (f *File) poll() bool {
	version, err := f.stat()
	switch {
	case err != nil, sameVersion(version, f.used):
	case sameVersion(version, f.invalid):
		err = f.reason
	case !sameVersion(version, f.next):
		f.next = version
		return false
	default:
		err = f.read(version)
	}
	f.report(err)
	return err == nil && f.used == version
}

// report logs an error, unless the previous poll failed with the same error.
func (f *File) report(err error) {
	if err == nil {
		if f.failed != "" {
			f.log.Info("block list is readable again", "file", f.path)
		}
		f.failed = ""
		return
	}
	if text := err.Error(); text != f.failed {
		f.failed = text
		f.log.Error("cannot read the block list; the last list stays in use", "file", f.path, "error", err)
	}
}

func (f *File) announce() {
	f.log.Info("block list in use", "file", f.path, "hosts", f.list.Len())
}

func (f *File) stat() (os.FileInfo, error) {
	version, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !version.Mode().IsRegular():
		return nil, errNotRegular // opening a named pipe would block
	case version.Size() > maxSize:
		return nil, errTooLarge
	}
	return version, nil
}

// sameVersion reports whether a and b describe the same content, as far as the file system shows. b may be nil.
func sameVersion(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read reads the list in the file. version describes the file before the read.
func (f *File) read(version os.FileInfo) error {
	content, err := f.load(f.path)
	if err != nil {
		return err
	}
	hosts, err := f.parse(content)
	if err != nil {
		f.invalid, f.reason = version, err
		return err
	}
	f.list, f.used = hosts, version
	return nil
}

// parse reads the hosts in content. If content is empty and the list in use has hosts, parse fails: for "generator > hosts", a
// shell empties the file before it starts the command that writes the hosts.
func (f *File) parse(content string) (*destination.Hosts, error) {
	if content == "" && f.list != nil && f.list.Len() > 0 {
		return nil, errEmpty
	}
	return parseHosts(content)
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	var content strings.Builder
	info, err := file.Stat()
	if err == nil {
		content.Grow(int(min(info.Size(), maxSize)))
		_, err = io.Copy(&content, io.LimitReader(file, maxSize+1))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if content.Len() > maxSize {
		return "", errTooLarge
	}
	return content.String(), nil
}

// lineError reports the first line of a file that is not a host.
type lineError struct {
	number int
	text   string
}

func (e *lineError) Error() string {
	const enough = 80
	return fmt.Sprintf("line %d is %.*q; a line takes %s", e.number, enough, e.text, destination.TakesHost)
}

func parseHosts(content string) (*destination.Hosts, error) {
	hosts, number := destination.NewHosts(min(strings.Count(content, "\n"), len(content)/shortLine)), 0
	content = strings.TrimPrefix(content, "\ufeff") // some editors begin a file with a byte order mark
	for line := range strings.Lines(content) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !hosts.Add(withoutWildcard(line)) {
			return nil, &lineError{number, line}
		}
	}
	return hosts, nil
}

// withoutWildcard removes *. or a dot from the beginning of a line.
func withoutWildcard(line string) string {
	if name, found := strings.CutPrefix(line, "*."); found {
		return name
	}
	return strings.TrimPrefix(line, ".")
}
