// Package drill breaks the built programs on purpose, under load, and has package
// loadtest judge what they acknowledged. It has nothing but tests, behind the build
// tag drill, because they take minutes:
//
//	go test -tags drill -timeout 30m ./loadtest/drill [-drill.scale 0.1] [-run Kill -v]
//
// A drill works on real processes, with a Postgres and a Redis of its own, and knows
// them by their commands, settings and HTTP interface. The one exception is the table
// of links, which it reads to find what became of creations whose outcome the client
// does not know.
//
// Every drill ends alike: the servers are stopped in order and started again, so that
// no cache answers for the store, and then every acknowledged link must be there and
// right, none may be there twice, and `shortener audit` must close.
package drill
