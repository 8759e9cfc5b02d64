package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
	"keypool/kgs/ledger"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// ofLedger explains the code of a link whose key is a number of a ledger.
func (x *Explanation) ofLedger(e Evidence) {
	x.Origin = "a number of the ledger"
	if e.Space.Fingerprint() != codespace.Plain().Fingerprint() {
		x.Origin = "a permuted number of the ledger"
	}
	if e.Link.Source == kgs.SourceKGS {
		x.Origin = "a key on lease from a key service"
		x.lacks("whether the key service uses this ledger, unless a range contains the number")
	}
	if !x.number(e) {
		x.lacks("the number, because the code has no number in this ledger")
		return
	}
	x.place(e)
	switch {
	case x.Range == nil:
		x.lacks("the batch and the server: the ledger removes the row of a batch when the batch is settled, and batches of a pool in Redis are recorded in Redis")
	case x.Range.State == ledger.StateAbandoned:
		x.Reason = "A link has the code. The numbers of its range without a link were abandoned (" + x.Range.Reason + ")."
		x.lacks("the server: an abandoned range has no holder")
	}
}

// number adds the number that the code has in the code space of the ledger. It returns false if the code has
// no number.
func (x *Explanation) number(e Evidence) bool {
	length, n, err := e.Space.Number(e.Code)
	if err != nil {
		return false
	}
	x.Number = &Number{Length: length, Number: n, Size: codespace.Size(length)}
	for _, s := range e.Ledger.Spaces {
		if s.Length == length {
			x.Number.Counter = s.Next
		}
	}
	return true
}

// place adds the epoch and the range of a reserved number.
func (x *Explanation) place(e Evidence) {
	n := *x.Number
	if n.Number >= n.Counter {
		return
	}
	epoch := int64(0)
	for _, b := range e.Ledger.Boundaries {
		if b.Length == n.Length && b.Next <= n.Number {
			epoch = max(epoch, b.Number)
		}
	}
	x.Epoch = &epoch
	for _, r := range e.Ledger.Rows {
		if r.Length == n.Length && r.Lo <= n.Number && n.Number < r.Hi {
			x.Range = &Range{ID: r.ID, Lo: r.Lo, Hi: r.Hi, State: r.State, Holder: r.Holder, Reason: r.Reason, Epoch: r.Epoch}
		}
	}
}

// unlinked explains a code that no link has.
func (x *Explanation) unlinked(e Evidence) {
	x.lacks("failed creations: a key source such as random or hash may have made this code for a creation that then failed")
	switch {
	case e.Pool != nil:
		x.ofPostgresPool(e)
	case x.number(e):
		x.place(e)
		x.unlinkedNumber(e)
	case e.Machine != nil:
		x.snowflake(e)
		x.unlinkedSnowflake()
	default:
		x.Status, x.Reason = Unknown, "No link has the code. The code is not a number of the ledger, which has codes of 3 to 10 letters and digits. It can be an alias, or a code of the key sources hash or uuid."
	}
}

func (x *Explanation) ofPostgresPool(e Evidence) {
	x.Origin = "a random string of the pool in PostgreSQL"
	switch {
	case !e.Pool.UsedAt.IsZero():
		x.Status, x.Reason = Unknown, "A server took the key from the pool, and no link has the key: the key is in a local batch, or it was lost."
		x.lacks("whether the key is in a local batch or lost, and the server that took it: the table used_keys does not record this")
	case e.Pool.Reserved:
		x.Status, x.Reason = Reserved, "The key is reserved for the local batch of a server."
	default:
		x.Status, x.Reason = Reserved, "The key waits in the pool."
	}
}

func (x *Explanation) unlinkedNumber(e Evidence) {
	n := *x.Number
	switch {
	case n.Number >= n.Counter:
		x.Status = NotIssued
		x.Reason = fmt.Sprintf("Not issued yet: the ledger has reserved the numbers below %d of the codes of %d characters.", n.Counter, n.Length)
	case x.Range != nil:
		x.Status, x.Reason = x.Range.describe()
	case *x.Epoch == 0:
		x.Status, x.Reason = Unknown, "The number is reserved, and the ledger records no place for it: run `shortener audit`, which reads all links."
	default:
		x.ofRedisPool(slices.Collect(maps.Values(e.Ledger.Epochs())))
	}
}

// ofRedisPool explains a number whose place only Redis records. epochs has the current epoch of each list of the pool,
// and is not empty, because the number belongs to an epoch.
func (x *Explanation) ofRedisPool(epochs []int64) {
	x.lacks("whether the key is in the pool or in a batch, and the server of the batch: Redis records this, and `shortener audit` reads it")
	switch epoch := *x.Epoch; {
	case epoch >= slices.Max(epochs):
		x.Status, x.Reason = Reserved, "The key is in the pool in Redis or in a batch that a server took from it, unless `shortener audit` reports it as missing."
	case epoch < slices.Min(epochs):
		x.Status = Unknown
		x.Reason = fmt.Sprintf("The pool of epoch %d was abandoned, and the key with it, unless a server had taken the key in a batch.", epoch)
	default:
		x.Status = Unknown
		x.Reason = fmt.Sprintf("The key was reserved in epoch %d, and a list of the pool has begun a later epoch. If the key was in this list, it was abandoned, unless a server had taken it in a batch.", epoch)
	}
}

// describe returns the status of a number that is in the range and has no link, and the reason for the status.
func (r *Range) describe() (Status, string) {
	switch r.State {
	case ledger.StateReserved:
		if r.Holder == "" {
			return Reserved, "No process holds the number. It waits for the next process that reserves a range."
		}
		return Reserved, "The number is in the pool of a process."
	case ledger.StateShipping:
		return Reserved, "A worker is pushing the range to the pool in Redis."
	case ledger.StateBatch:
		return Reserved, "The number is in the local batch of a server or in the lease of a client."
	default:
		return Abandoned, "The range was abandoned with the reason " + r.Reason + ", so the key is never handed out."
	}
}

// snowflake adds the fields of a Snowflake number.
func (x *Explanation) snowflake(e Evidence) {
	fields, ok := keysource.ParseSnowflake(e.Code)
	if !ok || e.Machine == nil {
		x.lacks("the time and the machine, because the code is not a Snowflake number")
		return
	}
	x.Snowflake = &Snowflake{SnowflakeFields: fields, Holder: e.Machine.Holder, Until: e.Machine.Until}
	x.lacks("earlier holders of the machine id")
}

func (x *Explanation) unlinkedSnowflake() {
	s := x.Snowflake
	x.Origin = "read as a Snowflake number: a time, a machine id and a sequence number"
	switch {
	case s.Until.IsZero():
		x.Status, x.Reason = NotIssued, fmt.Sprintf("The code cannot be a key of the key source snowflake: no process has ever held the machine id %d.", s.Machine)
	case !s.Time.Before(s.Until):
		x.Status, x.Reason = NotIssued, fmt.Sprintf("Not issued yet: no process holds the machine id %d for this time.", s.Machine)
	default:
		x.Status, x.Reason = Unknown, "A process may have made the number, but no link has the code."
	}
}
