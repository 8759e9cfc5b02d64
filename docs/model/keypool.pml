/*
 * The supply protocol of Keypool for spin: two workers and two servers over one ledger and one
 * Redis pool, all of which may fail. Whatever the order of their steps,
 *
 *   I1  no number is handed to two creations (`drawnTwice` stays empty), so no key ever conflicts
 *       with another, and none waits in two places to be handed out (`waitsTwice`);
 *   I4  the accounts close: as long as the pool is open for the ledger's epoch, each reserved
 *       number is shipping, in the pool, in a batch on record, doomed, abandoned, linked, or
 *       below the boundary of an epoch (`nowhere` stays empty).
 *
 * The names are those of the code: kgs/ledger (reserve.go, settle.go, epoch.go),
 * kgs/redispool (filler.go, pool.go, scripts.go, push.go, sweep.go) and kgs/source*.go.
 *
 * What is modelled. A ledger transaction or a Lua script is one atomic step. Between any two
 * steps a process may stay away: for ever (killed), or for long (frozen, and the same goes for a
 * command that arrives late). Anyone may be declared dead at any time, rightly or not: his range
 * is adopted, his batches are doomed, and he may thaw. Replies are lost as often as can be. A Take
 * that was given up may arrive after its own repetition, even in another epoch. The pool is
 * flushed within a run of Redis, or restarted from an older copy of its data, in a new run.
 *
 * What is left out. Time; how much is pushed or taken; the order of the list (a Take pops any
 * one or two codes, which is more than a list can do); the second batch of a Source (the books
 * are kept batch by batch); a Take of an empty pool; aliases and the fallback; the memory pool, so
 * reserved and batch rows of the ledger; a ledger that comes back from an older state (it jumps).
 *
 * No run could visit all faults at once. docs/model/check (`make model`) cuts along these:
 *   RANGES, SIZE    ranges in all, at most 2; numbers of a range. A chunk is one number
 *   MOST            codes that a Take pops at most, 1 or 2
 *   EPOCHS, FLUSHES, RESTARTS, LATES   how often at most
 *   WORKER_FAULTS   workers are killed and start anew, are adopted from, lose replies
 *   SERVER_FAULTS   servers lose replies, are declared dead, do not settle; LOSSES: of commits too
 * A server that is killed needs no step: it is one that does nothing any more.
 *
 * By hand, and then the steps that lead to the error:
 *   spin -a -DNO_mark keypool.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m10000
 *   spin -t -p -g -DNO_mark keypool.pml
 *
 * The protections follow. Without any one of them spin finds a counter-example, told beside it;
 * where a drill has a control of the same name, that one shows it on real servers.
 */

/* lock: two Reserves read the same counter. The same numbers are shipped under two ids. */
#ifdef NO_lock
#define LOCK
#else
#define LOCK atomic
#endif

/* mark: the reply of a Push is lost. Its repetition pushes the same numbers again. */
#ifdef NO_mark
#define MARK(id) next
#else
#define MARK(id) pool.mark[id]
#endif

/* floor: a worker freezes before its first Push; its range is adopted, delivered, and the mark
 * forgotten. Thawed, it pushes the range from the beginning. */
#ifdef NO_floor
#define FLOOR 0
#else
#define FLOOR pool.floor
#endif

/* guard: a copy of the data, a Take, a restart from the copy. The same codes are taken again. */
#ifdef NO_guard
#define GUARD (pool.opened != 0)
#else
#define GUARD (pool.opened == redis)
#endif

/* takeid: the reply of a Take is lost. Its repetition pops other codes, whose record goes over
 * that of the first, and those are nowhere. */
#ifdef NO_takeid
#define TAKES(s) 0
#else
#define TAKES(s) pool.takes[s]
#endif

/* lastid: a holder is declared dead or released, and the last id that it asked for forgotten. A
 * late Take of it pops again under an id that was used before, and so goes over what is on record
 * or doomed under that name, and that is nowhere. */
#ifdef NO_lastid
#define LASTID 0
#else
#define LASTID 255
#endif

/* record: the reply of a Settle is lost. Its repetition gives the unused codes back again.
 * same: a Take is late, and repeated with success; a flush, a new epoch, whose pool knows of no
 * ids; the late Take pops there under the id of the batch from before. When that one is settled, the
 * other is off the record, and its codes are nowhere. So the record must be of the same codes. */
#ifdef NO_record
#define RECORD(s, id) (id != 0)
#elif defined(NO_same)
#define RECORD(s, id) (pool.batches[AT(s, id)] != 0)
#else
#define RECORD(s, id) (pool.batches[AT(s, id)] != 0 && pool.batches[AT(s, id)] == took)
#endif

/* fresh: a worker begins epoch 1 and freezes before its Open; another begins 2, opens the pool,
 * and it is filled; a flush. The first thaws and opens the empty pool for 1. If the pool, older
 * than the ledger as it looks, were now opened for 2 again, what it held before would be nowhere
 * and its marks gone. So a pool that is behind takes a fresh epoch, and each is opened but once. */
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
#define IDS 2                                     /* batches that a server takes at most */
#define AT(s, id) ((s) * IDS + (id) - 1)          /* of a batch among those of all servers */
#define LOST (2 * IDS)                            /* of the doomed entries for lost replies */
#define ARRIVED 255
#define NUMBER(lo, n) (1 << (SIZE * ((lo) - 1) + (n)))  /* sets of numbers are bit masks */
#define BELOW(lo) ((1 << (SIZE * ((lo) - 1))) - 1)
#define RUN(lo) (lo -> BELOW(lo + 1) & ~BELOW(lo) : 0)
#define ANY(set) :: (set) & 1 -> n = 1 :: (set) & 2 -> n = 2 :: (set) & 4 -> n = 4 :: (set) & 8 -> n = 8

/* The ledger. */
byte counter = 1, last;      /* which run is reserved next, from 1; the range id that was given last */
byte epoch, boundary = 1;    /* of the last epoch: the counter when it began */
byte row[4];                 /* by range id: the run it ships, 0 for no row (3 only without the lock) */
byte abandoned;
byte links, drawn;           /* rows of the link store; what was ever handed to a creation */

/* Redis: the run it is in, and its data. */
typedef Pool {
	byte opened, epoch, floor, keys;              /* opened: the run it was opened on, 0 for no state */
	byte mark[4];                                 /* by range id: how many of its numbers are pushed */
	byte batches[2 * IDS], takes[2], doomed[2 * IDS + 1]
};
byte redis = 1;
Pool pool, copy;

byte late;                   /* a Take that was given up and has yet to arrive: AT + 1, or ARRIVED */
bool began;                  /* the servers are alike, so we call that one 0 which asks first */
hidden byte i, drawnTwice, waitsTwice, nowhere;

#define BATCHES (pool.batches[0] | pool.batches[1] | pool.batches[2] | pool.batches[3])
#define DOOMED (pool.doomed[0] | pool.doomed[1] | pool.doomed[2] | pool.doomed[3] | pool.doomed[4])
#define SHIPPING (RUN(row[1]) | RUN(row[2]))
#define NOWHERE (BELOW(counter) & ~(BELOW(boundary) | SHIPPING | pool.keys | BATCHES | DOOMED | abandoned | links))
#define OPEN (pool.opened == redis && pool.epoch == epoch)

active proctype Audit() {
end:	d_step { OPEN && NOWHERE -> nowhere = NOWHERE; assert(nowhere == 0) }
}

inline giveBack(codes) {
	waitsTwice = (codes) & (pool.keys | BATCHES | links);
	assert(waitsTwice == 0);
	pool.keys = pool.keys | (codes)
}

/* Makes one pool like another, or, with a mask of 0, empties it. */
inline fill(to, from, mask) {
	to.floor = from.floor & mask; to.keys = from.keys & mask;
	to.mark[1] = from.mark[1] & mask; to.mark[2] = from.mark[2] & mask;
	for (i : 0 .. 2 * IDS - 1) { to.batches[i] = from.batches[i] & mask }
	for (i : 0 .. 2 * IDS) { to.doomed[i] = from.doomed[i] & mask }
	to.takes[0] = from.takes[0] & mask; to.takes[1] = from.takes[1] & mask;
	to.opened = from.opened & mask; to.epoch = from.epoch & mask
}

/* ---- workers: RedisShipper ---- */

inline OpenEpoch() {
	epoch++; boundary = counter; row[1] = 0; row[2] = 0
}

inline Open(number, replid) {
	if
	:: redis == replid && !(pool.opened == replid && pool.epoch >= number) ->
		fill(pool, pool, 0); pool.opened = replid; pool.epoch = number
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
	byte id, lo, next, born; /* s.current: id, which run, how much of it is known to be pushed, epoch */
	byte after, replid, floor, n;
end:	do
	/* Size: the ledger's epoch, then Status. What follows a request may also be that it failed. */
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
	/* Reserve: adoptShipping from whoever is said to be dead, or advance. */
	:: d_step { WORKER_FAULTS && id == 0 && row[1] -> id = 1; lo = row[1]; born = epoch }
	:: d_step { WORKER_FAULTS && id == 0 && row[2] -> id = 2; lo = row[2]; born = epoch }
	:: LOCK {
		d_step { epoch && id == 0 && counter <= RANGES && last < RANGES -> n = counter }
		d_step { last++; counter = n + 1; id = last; lo = n; born = epoch; row[id] = lo; n = 0 } }
	/* Push, whose reply arrives, or is lost. */
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
	/* Killed, and started again under another name. */
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
	:: GUARD && RECORD(me, batch) ->
		pool.batches[AT(me, batch)] = 0;
		giveBack(unused);
		pool.doomed[LOST] = pool.doomed[LOST] | lost
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
#define HUNGRY (batch == 0 && next <= IDS && GUARD && (pool.keys || UNREAD) && TURN)
#define TURN (me == 0 || began)

active [2] proctype Server() {
	byte next = 1;           /* the batch id to ask for */
	byte batch, took, unused, lost, n;
end:	do
	/* Take, whose reply arrives, is lost, or the request comes late. */
	:: atomic { HUNGRY -> began = 1; Take(me, next, unused);
		if
		:: unused -> batch = next; took = unused
		:: else
		fi;
		next++ }
	:: atomic { SERVER_FAULTS && HUNGRY -> began = 1; Take(me, next, unused); unused = 0 }
	:: d_step { LATES && batch == 0 && next <= IDS && late == 0 && TURN -> late = AT(me, next) + 1; began = 1 }
	/* A key is handed out and linked: Spent; or the reply of the commit is lost: Lost, with a row or without. */
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
	/* Settle what is finished; its reply arrives, or is lost. */
	:: d_step { batch && !unused -> Settle(0, lost); batch = 0; took = 0; lost = 0 }
	:: d_step { SERVER_FAULTS && batch && !unused -> Settle(0, lost) }
	/* Close: hand back what is left (at least a Take whose reply was not read). */
	:: batch && unused -> break
	:: batch == 0 && UNREAD -> break
	od;
endClose:
	do
	:: d_step { batch && unused -> Settle(unused, lost) } /* once, again, or not at all */
	:: d_step { GUARD -> Release(); next = 0; batch = 0; took = 0; unused = 0; lost = 0; n = 0 } break
	od
}

/* A Take that its server has given up arrives after all; nobody reads the reply. */
active proctype Network() {
	byte codes, n;
end:	do
	:: atomic { GUARD && late && late != ARRIVED ->
		Take((late - 1) / IDS, (late - 1) % IDS + 1, codes);
		late = ARRIVED; codes = 0 }
	od
}

/* ---- Sweep, of any process ---- */

#define HOLDS(s) ((pool.takes[s] & ~LASTID) || pool.batches[AT(s, 1)] || pool.batches[AT(s, 2)])
inline Doom(s) {
	for (i : AT(s, 1) .. AT(s, 2)) {
		if
		:: pool.batches[i] -> pool.doomed[i] = pool.batches[i]; pool.batches[i] = 0
		:: else
		fi
	}
	pool.takes[s] = pool.takes[s] & LASTID
}

active proctype Janitor() {
	byte entry, codes;
end:	do
	:: d_step { SERVER_FAULTS && GUARD && HOLDS(0) -> Doom(0) }
	:: d_step { SERVER_FAULTS && GUARD && HOLDS(1) -> Doom(1) }
	:: atomic { GUARD && DOOMED ->
		if
		:: pool.doomed[0] -> entry = 0
		:: pool.doomed[1] -> entry = 1
		:: pool.doomed[2] -> entry = 2
		:: pool.doomed[3] -> entry = 3
		:: pool.doomed[4] -> entry = 4
		fi;
		codes = pool.doomed[entry] }
		if
		:: abandoned = abandoned | codes; /* Abandon */
			if
			:: d_step { GUARD -> pool.doomed[entry] = (entry == LOST -> pool.doomed[entry] & ~codes : 0);
				entry = 0; codes = 0 }
			:: d_step { entry = 0; codes = 0 }
			fi
		:: d_step { entry = 0; codes = 0 }
		fi
	od
}

/* ---- Redis comes back old or empty ---- */

active proctype Redis() {
	byte flushes = FLUSHES, restarts = RESTARTS, saved;
end:	do
	:: d_step { flushes && pool.opened -> fill(pool, pool, 0); flushes-- }
	:: d_step { restarts && !saved && pool.opened -> fill(copy, pool, 255); saved = 1 }
	:: d_step { saved -> fill(pool, copy, 255); fill(copy, copy, 0); saved = 0; restarts--; redis++ }
	od
}
