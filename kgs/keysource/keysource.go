// Package keysource implements the key sources that make a code at the moment of a creation,
// without a local batch: [RedisIncr], [Tickets], [Snowflake], [Hash], [UUID] and [Random].
//
// Invariant: each source is a [kgs.Generator]. The comment of its type says why the source never
// makes a code twice, or when it can make a code twice. If a source makes a code twice, the primary
// key of the link store refuses the second use of the code.
//
// Vocabulary: a creation requests a code from its source. After each conflict, it requests another
// code. The attempt is the number of these conflicts, beginning at 0. A machine id is the part of
// a Snowflake number that identifies its process.
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
