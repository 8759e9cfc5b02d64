// Package version holds the version of a program. The linker sets the version (see the Makefile),
// because the go command cannot read the revision of a source tree that git does not trust.
package version

import "fmt"

//nolint:gochecknoglobals // the linker can set only package variables
var (
	number = "unknown" // as `git describe` prints it
	commit = "unknown" // the full hash
)

// Number returns the version without the commit, such as v1.2-3-gabc.
func Number() string { return number }

// Of returns the text that `program --version` prints: the program, its version and its commit.
func Of(program string) string {
	return fmt.Sprintf("%s %s (commit %s)", program, number, commit)
}
