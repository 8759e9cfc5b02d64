// Package version names the build of a program. The linker sets it (see the Makefile) rather
// than the go command, which cannot read the revision of a tree that git does not trust.
package version

import "fmt"

//nolint:gochecknoglobals // the linker can set nothing but package variables
var (
	number = "unknown" // as `git describe` prints it
	commit = "unknown" // the full hash
)

// Number is the version alone, such as v1.2-3-gabc.
func Number() string { return number }

// Of is what `program --version` prints: program, version and commit.
func Of(program string) string {
	return fmt.Sprintf("%s %s (commit %s)", program, number, commit)
}
