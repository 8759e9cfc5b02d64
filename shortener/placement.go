package shortener

// Placement shows where links live, for a store that keeps them on several servers. Each such server is a part of the store. Links
// of one part can be inserted together at little cost, and a part that does not answer does not stop the others.
//
// All methods may be called concurrently and do not block.
type Placement interface {
	// PartOf returns the part in which the link of code lives, or would live, and whether this part answers at present. Parts
	// are numbered, and their numbers are not negative. A code may move to another part.
	PartOf(code string) (part int, answers bool)
	// PartOfRequest returns the part that keeps an idempotency key, and whether this part answers at present. A creation with this
	// key concerns one part only if its code belongs to the same part.
	PartOfRequest(key string) (part int, answers bool)
	// Answers reports whether any part other than except answers at present. A negative number excepts no part.
	Answers(except int) bool
}

// OnePart is the placement of a store that has one part, which always counts as answering.
type OnePart struct{}

var _ Placement = OnePart{}

// PartOf implements [Placement].
func (OnePart) PartOf(string) (part int, answers bool) { return 0, true }

// PartOfRequest implements [Placement].
func (OnePart) PartOfRequest(string) (part int, answers bool) { return 0, true }

// Answers implements [Placement].
func (OnePart) Answers(except int) bool { return except != 0 }
