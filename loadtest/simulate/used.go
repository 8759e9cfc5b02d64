package simulate

// usedChunk is the number of codes that add collects before it sends them.
const usedChunk = 8192

// usedNumbers counts the repeated uses of numbers. It examines the codes in a separate goroutine, outside the virtual
// clock, so that this work runs in parallel with the simulation.
type usedNumbers struct {
	chunk  []string      // codes that were not sent to the goroutine yet
	full   chan []string // chunks to examine
	closed chan struct{} // closed when all chunks are examined
	seen   []uint64      // one bit for each number
	twice  int64
}

// newUsedNumbers starts the goroutine. The caller must call close.
func newUsedNumbers() *usedNumbers {
	u := &usedNumbers{chunk: make([]string, 0, usedChunk), full: make(chan []string, 1), closed: make(chan struct{})}
	go u.run()
	return u
}

// add records that a creation uses a code. Calls must not overlap. A call may block until the
// goroutine has examined earlier chunks.
func (u *usedNumbers) add(code string) {
	u.chunk = append(u.chunk, code)
	if len(u.chunk) == usedChunk {
		u.full <- u.chunk
		u.chunk = make([]string, 0, usedChunk)
	}
}

// close ends the goroutine and returns how often a number was used again.
func (u *usedNumbers) close() (twice int64) {
	u.full <- u.chunk
	close(u.full)
	<-u.closed
	return u.twice
}

func (u *usedNumbers) run() {
	defer close(u.closed)
	for chunk := range u.full {
		for _, code := range chunk {
			u.mark(number(code))
		}
	}
}

func (u *usedNumbers) mark(n int64) {
	for int64(len(u.seen)) <= n/64 {
		u.seen = append(u.seen, make([]uint64, 1<<14)...)
	}
	word, bit := &u.seen[n/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		u.twice++
	}
	*word |= bit
}
