package pgstore

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"keypool/shortener"
)

// maxStatements is the maximum number of look-up statements that run at the same time. With two
// statements, the server works on one of them while this process reads the result of the other.
const maxStatements = 2

// lookups joins concurrent look-ups: look-ups that arrive while maxStatements statements run share the
// next statement. If fewer statements run, a look-up does not wait.
//
// The type lookups starts no goroutine. The look-ups that share a statement are a group. One look-up of
// the group is the leader: its caller runs the statement for the whole group. Afterwards the leader
// chooses the next leader among the look-ups that arrived meanwhile.
type lookups struct {
	// find returns the rows of the given codes, by code. A code without a row is absent.
	find func(ctx context.Context, codes []string) (map[string]result, error)

	mu      sync.Mutex
	waiting []*lookup // look-ups that are in no group yet
	running int       // number of leaders
}

// result is the row of a code, or the error of a row that cannot be decoded.
type result struct {
	link shortener.Link
	err  error
}

// lookup is one look-up that waits.
type lookup struct {
	code string
	gone bool      // whether the caller has left; guarded by lookups.mu
	turn chan turn // has a buffer of 1, so that a leader never waits for a caller that left
}

// turn is a message to a look-up that waits: the result of the look-up, or the group of which the look-up becomes the
// leader.
type turn struct {
	link  shortener.Link
	err   error
	group []*lookup // contains the look-up itself; nil if the message is the result
}

// do returns the row of code, or the zero Link if there is no row. It blocks until the answer arrives
// or ctx ends.
func (g *lookups) do(ctx context.Context, code string) (shortener.Link, error) {
	if err := ctx.Err(); err != nil {
		return shortener.Link{}, err
	}
	l := &lookup{code: code, turn: make(chan turn, 1)}
	group := g.join(l)
	if group == nil {
		select {
		case t := <-l.turn:
			if t.group == nil {
				return t.link, t.err
			}
			group = t.group
		case <-ctx.Done():
			g.leave(l)
			return shortener.Link{}, ctx.Err()
		}
	}
	defer g.handOver()
	return g.lead(ctx, l, group)
}

// join adds l to the waiting look-ups. If another statement may run, l becomes a leader, and join
// returns the group of l.
func (g *lookups) join(l *lookup) (group []*lookup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, l)
	if g.running == maxStatements {
		return nil
	}
	g.running++
	return g.take()
}

func (g *lookups) take() (group []*lookup) {
	group, g.waiting = g.waiting, nil
	return group
}

// lead runs one statement for a group, sends the results to the other callers of the group and
// returns the result of l.
func (g *lookups) lead(ctx context.Context, l *lookup, group []*lookup) (shortener.Link, error) {
	codes := make([]string, len(group))
	for i, member := range group {
		codes[i] = member.code
	}
	found, err := g.find(ctx, codes)
	if err != nil && ctx.Err() != nil { // the statement ended because the caller of l left
		g.mu.Lock()
		g.requeue(l, group)
		g.mu.Unlock()
		return shortener.Link{}, err
	}
	for _, member := range group {
		if member == l {
			continue
		}
		row := found[member.code]
		member.turn <- turn{link: row.link, err: cmp.Or(err, row.err)}
	}
	row := found[l.code]
	return row.link, cmp.Or(err, row.err)
}

// requeue makes the look-ups of a group wait again. It omits l and the look-ups whose callers have
// left, because a look-up without a caller cannot become a leader.
func (g *lookups) requeue(l *lookup, group []*lookup) {
	others := slices.DeleteFunc(group, func(member *lookup) bool { return member == l || member.gone })
	g.waiting = append(others, g.waiting...)
}

// handOver ends the turn of a leader, and makes the newest of the waiting look-ups the next leader. It chooses
// the newest look-up because this look-up usually has the most time left, and the statement of a group ends when
// the context of its leader ends.
func (g *lookups) handOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.running--
		return
	}
	group := g.take()
	group[len(group)-1].turn <- turn{group: group}
}

// leave removes l, whose caller stops waiting. If l has become a leader meanwhile, leave makes the
// group of l wait again and chooses the next leader.
func (g *lookups) leave(l *lookup) {
	g.mu.Lock()
	l.gone = true
	g.waiting = slices.DeleteFunc(g.waiting, func(member *lookup) bool { return member == l })
	var group []*lookup
	select {
	case t := <-l.turn:
		group = t.group
	default: // l was waiting, or another leader will send a result that no caller reads
	}
	g.requeue(l, group)
	g.mu.Unlock()
	if group != nil {
		g.handOver()
	}
}
