// Package sources is the one suite that every KEY_SOURCE passes, over real processes of the
// built programs. It has nothing but tests, behind the build tag drill: they kill processes
// and hold answers to a second, which other tests beside them would not let be kept.
//
//	make conformance [SOURCE=ticket]
//
// A source is put to work on a stand: two servers on one PostgreSQL, the first with the
// default fallback and the second with none, and whatever the source draws on. Then the
// rules are tried on it one after the other, each while what the ones before have made is
// still there. A rule knows the programs by their commands, settings, HTTP interface,
// /status and /metrics alone, and nothing of how a source works: that is in the table.
//
// Each rule has a negative control, in which it must find out what is broken on purpose: the
// programs (package failpoint), their settings, or the books.
package sources
