package shortener

// Placement shows on which server of a store each link lives. Each server that keeps links is a part of the store. Links of one
// part can be inserted together at little cost. If a part does not answer, the other parts still work.
//
// All methods may be called concurrently and do not block.
type Placement interface {
	// PartOf returns the part to which code belongs, even if no link has the code. It also reports whether this part
	// answers at present. A part is identified by a number that is not negative. A code may move to another part.
	PartOf(code string) (part int, answers bool)
	// PartOfRequest returns the part that keeps an idempotency key, and whether this part answers at present. If the code of the
	// creation belongs to another part, the creation needs both parts.
	PartOfRequest(key string) (part int, answers bool)
	// Answers reports whether at least one suitable part answers at present. A part is suitable if fits(part) is true, or
	// if fits is nil.
	Answers(fits func(part int) bool) bool
}

// OnePart is the placement of a store that has one part, which always counts as answering.
type OnePart struct{}

var _ Placement = OnePart{}

// PartOf implements [Placement].
func (OnePart) PartOf(string) (part int, answers bool) { return 0, true }

// PartOfRequest implements [Placement].
func (OnePart) PartOfRequest(string) (part int, answers bool) { return 0, true }

// Answers implements [Placement].
func (OnePart) Answers(fits func(int) bool) bool { return fits == nil || fits(0) }
