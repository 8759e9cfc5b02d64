/*
 * A spin model of the protocol that supplies Keypool with keys. A worker reserves numbers in the
 * ledger and pushes their codes to the pool in Redis. A server takes batches of codes from the
 * pool, gives the codes to creations and then settles the batch. In the model, two workers and two
 * servers share one ledger and one pool. Workers, servers and Redis may fail. spin tries every
 * order of the steps and proves two guarantees of docs/guarantees.md:
 *
 *   I1  No number is given to two creations (`drawnTwice` stays empty), so no key conflicts with
 *       another key. No number is available in two places, and no abandoned number returns to the
 *       pool (`waitsTwice` stays empty).
 *   I4  The accounts close. While the pool is open for the ledger's epoch, each reserved number
 *       is shipping, in the pool, in a recorded batch, withdrawn, abandoned or linked, or it was
 *       reserved before the present epoch began (`nowhere` stays empty).
 *       After a server has recorded a batch of an earlier epoch again, and while the pool is open
 *       for the ledger's epoch, each number of the batch is in a recorded batch, withdrawn,
 *       abandoned or linked, until the server returns the number unused (`unrecorded` stays
 *       empty). Before the server records the batch again, and after it returns a number, the
 *       audit counts a number that is in no place as abandoned with its epoch.
 *
 * The model uses the names of the code: kgs/ledger (reserve.go, settle.go, epoch.go),
 * kgs/redispool (prepare.go, open.go, filler.go, push.go, take.go, held.go, sweep.go) and kgs/source*.go.
 *
 * Vocabulary: a batch is withdrawn when its holder was declared dead and its numbers wait to be
 * abandoned. A run of Redis is the time from one start of its process to the next start. A late
 * Take or RecordAgain is one that its server no longer waits for and that Redis has not executed
 * yet.
 *
 * The model includes the following:
 *   - A ledger transaction or a Lua script is one atomic step.
 *   - A process may stop between any two steps, permanently (killed) or for a long time (frozen).
 *   - A command may arrive late.
 *   - Any process may be declared dead at any time, even if it is alive. Then another worker adopts
 *     its range, and its batches are withdrawn. The process that was declared dead may continue.
 *   - Any reply may be lost, any number of times.
 *   - A late Take may arrive after the repeated Take, even in another epoch. A late RecordAgain may
 *     arrive after the server has settled the batch.
 *   - The pool may be flushed within a run of Redis.
 *   - Redis may restart from an older copy of its data, which begins a new run.
 *   - A server may keep a batch after a new epoch has begun. It gives the codes to creations and
 *     settles the batch, before or after it records the batch again.
 *
 * The model leaves out the following:
 *   - Time.
 *   - Pushes of more than one code, and Takes of more than two codes.
 *   - The order of the list. In the model, a Take pops any one or two codes. This includes every
 *     order of a list.
 *   - The second batch of a Source, because the accounts of each batch are separate. Therefore the pool
 *     has at most one record of an earlier epoch for each server.
 *   - A Take from an empty pool.
 *   - Aliases and the fallback.
 *   - The memory pool. Therefore no ledger row is in the state reserved or batch.
 *   - In an epoch after the first, a late command of a server that also loses replies or is
 *     declared dead. A search with all these faults needs more memory than the configurations have.
 *   - A rollback of the ledger, after which the ledger skips ahead. Without a rollback, each epoch has
 *     a greater number than the epochs before. Therefore the controls same-batch and lower-epoch
 *     have no counterpart in the model.
 *   - The deletion of the record of a settled batch, if a late RecordAgain made this record
 *     (settleLate in held.go). In the model such a record stays, and the accounts still close. The
 *     control late-record tests the deletion.
 *
 * One search cannot visit all faults together. docs/model/check (`make model`) runs several
 * configurations, which differ in these macros:
 *   RANGES, SIZE    the number of ranges (at most 2), and the number of numbers in a range; each
 *                   Push pushes one number
 *   MOST            the largest number of codes that a Take pops, 1 or 2
 *   EPOCHS, FLUSHES, RESTARTS, LATES   the largest number of epochs, flushes, restarts of Redis
 *                   and late Takes or RecordAgains
 *   WORKER_FAULTS   workers are killed and restarted, lose their range to another worker, or
 *                   lose replies
 *   SERVER_FAULTS   servers lose replies, are declared dead, or do not settle
 *   LOSSES          servers also lose replies of commits
 * A killed server needs no step of its own, because it takes no more steps.
 *
 * To run one search by hand and print the steps that lead to the error:
 *   spin -a -DNO_mark keypool.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m10000
 *   spin -t -p -g -DNO_mark keypool.pml
 *
 * The macros below are the protections. With the macro NO_lock, the model has no protection lock,
 * and so on. The comment of each protection describes the error that spin then finds. If a fault
 * row (docs/testing.md) has a control of the same name, that control shows the error on real
 * servers.
 */

/* lock: without it, two workers call Reserve and read the same counter. The same numbers are then
 * pushed under two range ids. */
#ifdef NO_lock
#define LOCK
#else
#define LOCK atomic
#endif

/* mark: the reply of a Push is lost. Without the mark of the range, the repeated Push pushes the same
 * numbers again. */
#ifdef NO_mark
#define MARK(id) next
#else
#define MARK(id) pool.mark[id]
#endif

/* floor: a worker freezes before its first Push. Another worker adopts its range, delivers it and
 * deletes its mark. Without the floor, the first worker continues and pushes the range from the
 * beginning. */
#ifdef NO_floor
#define FLOOR 0
#else
#define FLOOR pool.floor
#endif

/* guard: the data is copied, a Take pops codes, and Redis restarts from the copy. Without the
 * comparison of the runs of Redis, another Take pops the same codes. */
#ifdef NO_guard
#define GUARD (pool.opened != 0)
#else
#define GUARD (pool.opened == redis)
#endif

/* takeid: the reply of a Take is lost. Without the batch id, the repeated Take pops other codes, and
 * their record overwrites the record of the first codes. The first codes are then in no account. */
#ifdef NO_takeid
#define TAKES(s) 0
#else
#define TAKES(s) pool.takes[s]
#endif

/* lastid: a holder is declared dead or released, and its last batch id is deleted. A late Take of
 * this holder pops codes under an id that was used before. Their record overwrites the recorded or
 * withdrawn batch that has this id. The codes of the overwritten batch are then in no account. */
#ifdef NO_lastid
#define LASTID 0
#else
#define LASTID 255
#endif

/* record: the reply of a Settle is lost. If Settle did not require a record of the batch, the
 * repeated Settle would return the unused codes again. */
#ifdef NO_record
#define RECORD(s, id) (id != 0)
#else
#define RECORD(s, id) (pool.batches[AT(s, id)] == took)
#endif

/* held: a new epoch deletes the records of all batches, but the servers still use the codes of these
 * batches. Without RecordAgain, a server completes its Sweep in the new epoch, and the codes of its
 * batch are in no account. The control held-batches shows this in a unit test. */
#ifdef NO_held
#define HELD false
#else
#define HELD true
#endif

/* name: a Take is late, and the repeated Take succeeds. The pool is flushed, and a new epoch begins.
 * The pool of the new epoch has no batch ids. The late Take pops codes from this pool under the id
 * of the old batch. The name of the record of the old batch contains its epoch. Without the epoch in
 * the name, RecordAgain overwrites the record of the new batch. The codes of the new batch are then
 * in no account. */
#ifdef NO_name
#define EARLIER(s, id) pool.batches[AT(s, id)]
#else
#define EARLIER(s, id) pool.held[s]
#endif

/* earlier: after a new epoch has begun, a server records its batch again, and the reply is lost. The
 * server is declared dead although it is alive, and the batch is withdrawn and abandoned. The server
 * records the batch once more. If Settle returned the unused codes of a batch of an earlier epoch,
 * abandoned codes would be in the pool. Therefore these codes never return to the pool. */
#ifdef NO_earlier
#define RETURNED(unused) (unused)
#else
#define RETURNED(unused) 0
#endif

/* fresh: a worker begins epoch 1 and freezes before its Open. Another worker begins epoch 2 and
 * opens the pool, the pool is filled, and then it is flushed. The first worker continues and opens
 * the empty pool for epoch 1. The pool is now behind the ledger. If it were opened for epoch 2
 * again, the numbers that it held before the flush would be in no account, and the marks of their
 * ranges would be missing. Therefore a pool that is behind gets a new epoch, and each epoch is
 * opened only once. */
#ifdef NO_fresh
#define FRESH false
#else
#define FRESH true
#endif

#ifndef RANGES
#define RANGES 2
#define SIZE 2
#define MOST 1
#define EPOCHS 1
#define FLUSHES 0
#define RESTARTS 0
#define WORKER_FAULTS 1
#define SERVER_FAULTS 0
#define LOSSES 0
#define LATES 0
#endif
#define IDS 2                                     /* the largest number of batches per server */
#define AT(s, id) ((s) * IDS + (id) - 1)          /* index of a batch among the batches of all servers */
#define LOST (2 * IDS)                            /* index in withdrawn of the numbers whose commit replies were lost, and of the batches of earlier epochs */
#define ARRIVED 255
#define NUMBER(lo, n) (1 << (SIZE * ((lo) - 1) + (n)))  /* a set of numbers is a bit mask */
#define BELOW(lo) ((1 << (SIZE * ((lo) - 1))) - 1)
#define RUN(lo) (lo -> BELOW(lo + 1) & ~BELOW(lo) : 0)
#define ANY(set) :: (set) & 1 -> n = 1 :: (set) & 2 -> n = 2 :: (set) & 4 -> n = 4 :: (set) & 8 -> n = 8

/* The ledger. */
byte counter = 1, last;      /* the next range to reserve, from 1; the range id that was assigned last */
byte epoch, boundary = 1;    /* the ledger's epoch; the counter when it began */
byte row[4];                 /* by range id: the range of its row, 0 for no row (id 3 exists only without the lock) */
byte abandoned;
byte links, drawn;           /* numbers with a row in the link store; numbers ever given to a creation */

/* Redis: the type of its data, the number of its present run, its data, and a copy of its data. */
typedef Pool {
	byte opened, epoch, floor, keys;              /* opened: the run in which the pool was opened, 0 for none */
	byte mark[4];                                 /* by range id: how many numbers of the range are pushed */
	byte batches[2 * IDS], takes[2], withdrawn[2 * IDS + 1];
	byte held[2]                                  /* by server: the record of its batch of an earlier epoch */
};
byte redis = 1;
Pool pool, copy;

byte late;                   /* the late Take or RecordAgain: AT + 1 while it has not arrived, then ARRIVED; 0 for none */
byte lateCodes, lateEpoch;   /* the arguments of a late RecordAgain; 0 for a late Take */
byte again;                  /* numbers of earlier epochs that servers recorded again in the pool's epoch and did not return */
bool began;                  /* reduces symmetry: the server that takes first is number 0 */
hidden byte i, drawnTwice, waitsTwice, nowhere, unrecorded;

#define BATCHES (pool.batches[0] | pool.batches[1] | pool.batches[2] | pool.batches[3])
#define EARLIER_BATCHES (pool.held[0] | pool.held[1])
#define WITHDRAWN (pool.withdrawn[0] | pool.withdrawn[1] | pool.withdrawn[2] | pool.withdrawn[3] | pool.withdrawn[4])
#define SHIPPING (RUN(row[1]) | RUN(row[2]))
#define NOWHERE (BELOW(counter) & ~(BELOW(boundary) | SHIPPING | pool.keys | BATCHES | WITHDRAWN | abandoned | links))
#define UNRECORDED (again & ~(BATCHES | EARLIER_BATCHES | WITHDRAWN | abandoned | links))
#define OPEN (pool.opened == redis && pool.epoch == epoch)

active proctype Audit() {
end:	do
	:: d_step { OPEN && NOWHERE -> nowhere = NOWHERE; assert(nowhere == 0) }
	:: d_step { OPEN && UNRECORDED -> unrecorded = UNRECORDED; assert(unrecorded == 0) }
	od
}

inline giveBack(codes) {
	waitsTwice = (codes) & (pool.keys | BATCHES | EARLIER_BATCHES | WITHDRAWN | abandoned | links);
	assert(waitsTwice == 0);
	pool.keys = pool.keys | (codes)
}

/* Copies one pool to another or, with a mask of 0, empties it. */
inline fill(to, from, mask) {
	to.floor = from.floor & mask; to.keys = from.keys & mask;
	to.mark[1] = from.mark[1] & mask; to.mark[2] = from.mark[2] & mask;
	for (i : 0 .. 2 * IDS - 1) { to.batches[i] = from.batches[i] & mask }
	for (i : 0 .. 2 * IDS) { to.withdrawn[i] = from.withdrawn[i] & mask }
	to.takes[0] = from.takes[0] & mask; to.takes[1] = from.takes[1] & mask;
	to.held[0] = from.held[0] & mask; to.held[1] = from.held[1] & mask;
	to.opened = from.opened & mask; to.epoch = from.epoch & mask
}

/* ---- workers: Filler ---- */

inline OpenEpoch() {
	epoch++; boundary = counter; row[1] = 0; row[2] = 0
}

inline Open(number, replid) {
	if
	:: redis == replid && !(pool.opened == replid && pool.epoch >= number) ->
		fill(pool, pool, 0); again = 0; pool.opened = replid; pool.epoch = number
	:: else
	fi
}

#define FITS (GUARD && born == pool.epoch && id >= FLOOR)
inline Push() {
	if
	:: FITS && MARK(id) == next -> giveBack(NUMBER(lo, next)); pool.mark[id] = next + 1
	:: else
	fi
}

inline Deliver() {
	row[id] = 0;
	floor = (row[1] -> 1 : (row[2] -> 2 : last + 1))
}

inline Forget() {
	pool.mark[1] = (1 < floor -> 0 : pool.mark[1]);
	pool.mark[2] = (2 < floor -> 0 : pool.mark[2]);
	pool.floor = floor
}

active [2] proctype Worker() {
	byte id, lo, next, born; /* s.current: range id; range; how many numbers are known to be pushed; epoch */
	byte after, replid, floor, n;
end:	do
	/* Prepare: read the ledger's epoch, then Status. Each request may fail. */
	:: d_step { epoch < EPOCHS || !FRESH -> after = epoch }
		if
		:: d_step { GUARD && pool.epoch >= after -> after = 0 }
		:: GUARD && pool.epoch < after && !FRESH -> replid = redis;
			d_step { Open(after, replid); after = 0; replid = 0 }
		:: d_step { !GUARD || pool.epoch < after && FRESH -> replid = redis }
			if
			:: d_step { epoch <= after && epoch < EPOCHS ->
				OpenEpoch(); after = epoch; id = 0; lo = 0; next = 0; born = 0 }
				if
				:: d_step { Open(after, replid); after = 0; replid = 0 }
				:: d_step { after = 0; replid = 0 }
				fi
			:: d_step { after = 0; replid = 0 }
			fi
		fi
	/* Reserve: adopt a range of a worker that was declared dead (adoptShipping), or advance the counter. */
	:: d_step { WORKER_FAULTS && id == 0 && row[1] -> id = 1; lo = row[1]; born = epoch }
	:: d_step { WORKER_FAULTS && id == 0 && row[2] -> id = 2; lo = row[2]; born = epoch }
	:: LOCK {
		d_step { epoch && id == 0 && counter <= RANGES && last < RANGES -> n = counter }
		d_step { last++; counter = n + 1; id = last; lo = n; born = epoch; row[id] = lo; n = 0 } }
	/* Push: the reply arrives or is lost. */
	:: d_step { id && next < SIZE -> Push();
		if
		:: FITS -> next = pool.mark[id]
		:: GUARD && (born < pool.epoch || id < FLOOR) -> id = 0; lo = 0; next = 0; born = 0 /* ErrFenced */
		:: else
		fi }
	:: d_step { WORKER_FAULTS && id && next < SIZE -> Push() }
	/* Deliver, then Forget. */
	:: d_step { id && next == SIZE -> Deliver(); id = 0; lo = 0; next = 0 }
		if
		:: d_step { GUARD && pool.epoch == born && floor > pool.floor -> Forget(); floor = 0; born = 0 }
		:: d_step { floor = 0; born = 0 }
		fi
	:: d_step { WORKER_FAULTS && id && next == SIZE -> Deliver(); floor = 0 }
	/* The worker is killed and restarts with another name. */
	:: d_step { WORKER_FAULTS && id -> id = 0; lo = 0; next = 0; born = 0 }
	od
}

/* ---- servers: Source ---- */

#define me (_pid - 3)

#define MORE(set) (MOST == 1 -> 0 : set)
inline Take(s, batch, codes) {
	if
	:: batch <= TAKES(s) -> codes = pool.batches[AT(s, batch)]
	:: else ->
		pool.takes[s] = batch;
		if ANY(pool.keys) :: !pool.keys fi;
		codes = n;
		if ANY(MORE(pool.keys & ~codes)) :: n = 0 fi;
		codes = codes | n; n = 0;
		pool.keys = pool.keys & ~codes;
		if
		:: codes -> pool.batches[AT(s, batch)] = codes
		:: else
		fi
	fi
}

inline Settle(unused, lost) {
	if
	:: GUARD && born == pool.epoch && RECORD(me, batch) ->
		pool.batches[AT(me, batch)] = 0;
		giveBack(unused);
		pool.withdrawn[LOST] = pool.withdrawn[LOST] | lost
	:: GUARD && born != pool.epoch && EARLIER(me, batch) == took ->
		EARLIER(me, batch) = 0;
		again = again & ~(unused);
		giveBack(RETURNED(unused));
		pool.withdrawn[LOST] = pool.withdrawn[LOST] | lost
	:: else
	fi
}

/* Sweep reads the epoch of the pool before it calls this script. Both are one step, because the script
 * refuses another epoch. */
inline RecordAgain(s, batch, codes) {
	waitsTwice = codes & (pool.keys | BATCHES | pool.held[1 - s]);
	assert(waitsTwice == 0);
	if
	:: HELD -> EARLIER(s, batch) = codes
	:: else
	fi
}

inline Release() {
	if
	:: next <= IDS -> n = pool.batches[AT(me, next)]; pool.batches[AT(me, next)] = 0
	:: else
	fi;
	pool.takes[me] = pool.takes[me] & LASTID;
	giveBack(n)
}

#define UNREAD (next <= pool.takes[me])
#define NEEDS_BATCH (batch == 0 && next <= IDS && GUARD && (pool.keys || UNREAD) && TURN)
#define TURN (me == 0 || began)
#define NEEDS_RECORD (batch && GUARD && recorded != pool.epoch)

active [2] proctype Server() {
	byte next = 1;           /* the id of the next batch to take */
	byte batch, took, unused, lost, n;
	byte born, recorded;     /* the epoch in which the batch was taken; the last epoch in which it was recorded */
end:	do
	/* Take: the reply arrives or is lost, or the request arrives late. */
	:: atomic { NEEDS_BATCH -> began = 1; Take(me, next, unused);
		if
		:: unused -> batch = next; took = unused; born = pool.epoch; recorded = born
		:: else
		fi;
		next++ }
	:: atomic { SERVER_FAULTS && NEEDS_BATCH -> began = 1; Take(me, next, unused); unused = 0 }
	:: d_step { LATES && batch == 0 && next <= IDS && late == 0 && TURN -> late = AT(me, next) + 1; began = 1 }
	/* A key is given to a creation. Either it is linked (Used), or the reply of the commit is lost (Lost), with
	 * or without a row. */
	:: atomic { unused ->
		if ANY(unused) fi;
		drawnTwice = drawn & n;
		assert(drawnTwice == 0);
		drawn = drawn | n; unused = unused & ~n;
		if
		:: links = links | n
		:: LOSSES -> links = links | n; lost = lost | n
		:: LOSSES -> lost = lost | n
		fi;
		n = 0 }
	/* RecordAgain, by the Sweep of this server: the reply arrives or is lost, or the request arrives late. */
	:: d_step { NEEDS_RECORD -> RecordAgain(me, batch, took); recorded = pool.epoch; again = again | took }
	:: d_step { SERVER_FAULTS && NEEDS_RECORD -> RecordAgain(me, batch, took) }
	:: d_step { LATES && NEEDS_RECORD && late == 0 -> late = AT(me, batch) + 1; lateCodes = took; lateEpoch = pool.epoch }
	/* Settle a finished batch: the reply arrives or is lost. */
	:: d_step { batch && !unused -> Settle(0, lost); batch = 0; took = 0; lost = 0; born = 0; recorded = 0 }
	:: d_step { SERVER_FAULTS && batch && !unused -> Settle(0, lost) }
	/* Close: return the remaining codes, and the codes of a Take whose reply the server did not read. */
	:: d_step { batch && unused -> recorded = 0 } break
	:: batch == 0 && UNREAD -> break
	od;
endClose:
	do
	:: d_step { batch && unused -> Settle(unused, lost) } /* never, or any number of times */
	:: d_step { GUARD -> Release(); next = 0; batch = 0; took = 0; unused = 0; lost = 0; born = 0; n = 0 } break
	od
}

/* A late Take or RecordAgain arrives. No process reads its reply. */
active proctype Network() {
	byte codes, n;
end:	do
	:: atomic { GUARD && late && late != ARRIVED ->
		if
		:: lateCodes && lateEpoch == pool.epoch -> RecordAgain((late - 1) / IDS, (late - 1) % IDS + 1, lateCodes)
		:: lateCodes && lateEpoch != pool.epoch
		:: !lateCodes -> Take((late - 1) / IDS, (late - 1) % IDS + 1, codes)
		fi;
		late = ARRIVED; lateCodes = 0; lateEpoch = 0; codes = 0 }
	od
}

/* ---- Sweep, by any process ---- */

#define HOLDS(s) ((pool.takes[s] & ~LASTID) || pool.batches[AT(s, 1)] || pool.batches[AT(s, 2)] || pool.held[s])
inline Doom(s) {
	for (i : AT(s, 1) .. AT(s, 2)) {
		if
		:: pool.batches[i] -> pool.withdrawn[i] = pool.batches[i]; pool.batches[i] = 0
		:: else
		fi
	}
	pool.withdrawn[LOST] = pool.withdrawn[LOST] | pool.held[s];
	pool.held[s] = 0;
	pool.takes[s] = pool.takes[s] & LASTID
}

active proctype Janitor() {
	byte entry, codes;
end:	do
	:: d_step { SERVER_FAULTS && GUARD && HOLDS(0) -> Doom(0) }
	:: d_step { SERVER_FAULTS && GUARD && HOLDS(1) -> Doom(1) }
	:: atomic { GUARD && WITHDRAWN ->
		if
		:: pool.withdrawn[0] -> entry = 0
		:: pool.withdrawn[1] -> entry = 1
		:: pool.withdrawn[2] -> entry = 2
		:: pool.withdrawn[3] -> entry = 3
		:: pool.withdrawn[4] -> entry = 4
		fi;
		codes = pool.withdrawn[entry] }
		if
		:: abandoned = abandoned | codes; /* Abandon */
			if
			:: d_step { GUARD -> pool.withdrawn[entry] = (entry == LOST -> pool.withdrawn[entry] & ~codes : 0);
				entry = 0; codes = 0 }
			:: d_step { entry = 0; codes = 0 }
			fi
		:: d_step { entry = 0; codes = 0 }
		fi
	od
}

/* ---- Redis is flushed or rolled back ---- */

active proctype Redis() {
	byte flushes = FLUSHES, restarts = RESTARTS, saved;
end:	do
	:: d_step { flushes && pool.opened -> fill(pool, pool, 0); again = 0; flushes-- }
	:: d_step { restarts && !saved && pool.opened -> fill(copy, pool, 255); saved = 1 }
	:: d_step { saved -> fill(pool, copy, 255); fill(copy, copy, 0); again = 0; saved = 0; restarts--; redis++ }
	od
}
