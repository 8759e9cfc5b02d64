// Package keysource implements the key sources that make a code when a link is created, without a
// local batch: [RedisIncr], [Tickets], [Snowflake], [Hash], [UUID] and [Random].
//
// Invariant: each source is a [kgs.Generator]. The comment of its type says why the source makes
// each code only once, or in which cases it makes a code again. If a source makes a code again, the primary
// key of the link store refuses the second link with the code.
//
// Vocabulary: a creation is a request that creates one link. Each attempt of a creation requests a
// code from the source. A conflict means that another link has the code. The creation then makes
// another attempt with another code. The parameter attempt of Next is 0 in the first attempt, and
// grows by one with each conflict. A machine id is the part of a Snowflake number that identifies the
// process that made the number.
package keysource

import (
	"keypool/kgs"
	"keypool/kgs/codespace"
)

// plainCode writes n in base 62 with at least the given number of digits. It fails with
// ErrExhausted if n needs more than MaxLength digits.
func plainCode(length int, n int64) (string, error) {
	for ; length <= codespace.MaxLength; length++ {
		if n < codespace.Size(length) {
			return string(codespace.AppendBase62(nil, length, n)), nil
		}
	}
	return "", kgs.ErrExhausted
}
