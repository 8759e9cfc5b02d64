package shortener

import "errors"

// Order is the order in which a store keeps links. Links that were created together have codes that
// look random. In this order, the rows of these links are nevertheless neighbours on disk.
//
// The order of a database must not change while a store uses the database, because the store finds a link by its rank.
type Order interface {
	// Rank returns the position of code in the order. Two codes never have the same rank. If code has
	// no rank, ok is false, and the store finds the link by the code itself. Rank does not block and
	// may be called concurrently.
	Rank(code string) (rank int64, ok bool)
	// Fingerprint identifies the order. It reveals no secret.
	Fingerprint() string
}

// ErrOtherOrder reports that the database keeps its links in another order than the store expects. In
// this state, the store would find the wrong links.
var ErrOtherOrder = errors.New("the links are stored in another order")

// NoRank stands for the rank of a code that has none.
const NoRank = -1
