// Package drill breaks the built programs on purpose, under load, and has package
// loadtest judge what they acknowledged. It has nothing but tests, behind the build
// tag drill, because they take minutes:
//
//	make drill [ROW=10] [SCALE=0.1] [TABLE=file.md]
//
// A row is one fault of the matrix in docs/guarantees.md. It is run twice: against the
// fault, and as a negative control with programs that lack the protection (package
// controls), which must end with the finding that the protection prevents. One line a row
// says what came of both; the rows that measure latencies run first, one by one, the others four at a time.
//
// A drill works on real processes, with a Postgres and a Redis of its own, and knows
// them by their commands, settings and HTTP interface. The exceptions are the table of
// links, which it reads to find what became of creations whose outcome the client does
// not know; the list of a pool, where each code of a space is looked for; and a word of
// each request whose reply a proxy is to lose. The programs are the shipped ones. Only a control, and a fault at a
// chosen step, use programs with the build tag drill (package failpoint).
//
// Every drill ends alike: the servers are stopped in order and started again, so that
// no cache answers for the store, and then every acknowledged link must be there and
// right, none may be there twice, and `shortener audit` must close.
package drill
