//go:build !drill

package failpoint

// At marks a step. It reports whether the caller must omit the operation that follows.
func At(string) (skip bool) { return false }
