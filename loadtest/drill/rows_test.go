//go:build drill

package drill

// unjust matches the words of judge for links that are not what was promised.
const unjust = `[1-9]\d* (are lost|wrong|there twice)`

// rows is the matrix, and drills beside it.
func rows() []row {
	return []row{
		{
			n: "1", fault: "server killed, SQLite", injected: "SIGKILL under load, every fourth in the middle of the start",
			run: killEmbedded, control: control{without: "commit", finds: unjust},
		},
		{
			n: "1b", fault: "server killed, Postgres and Redis", injected: "as 1",
			run: killPostgres, control: control{without: "commit", finds: unjust},
		},
		{
			n: "2", fault: "server stopped in order, SQLite", injected: "SIGTERM under load and with half-sent requests",
			run: stopEmbedded, control: control{without: "handback", finds: `left [1-9]\d* in batches`},
		},
		{
			n: "2b", fault: "server stopped in order, Postgres and Redis", injected: "as 2",
			run: stopPostgres, control: control{without: "handback", finds: `left [1-9]\d* in batches`},
		},
		{
			n: "3", fault: "worker killed at each step", injected: "SIGKILL by itself: epoch opened, range reserved, chunk pushed, all pushed, delivered, forgotten",
			run: workerKilled, failpoints: true, control: control{without: "mark", finds: "audit ended with status 1"},
		},
		{
			n: "4", fault: "worker frozen, its range adopted, then thawed", injected: "SIGSTOP by itself between reserve and push, SIGCONT after the range was delivered by another",
			run: workerThaws, failpoints: true, control: control{without: "floor", finds: "audit ended with status 1"},
		},
		{
			n: "5", fault: "16 workers at once", injected: "started at the same moment on an empty pool",
			run: workersAtOnce, control: control{without: "size", finds: "over capacity"},
		},
		{
			n: "6", fault: "Redis down", injected: "SIGKILL, restarted a minute later",
			run: redisKilled, control: control{settings: []string{"FALLBACK=none"}, finds: "^available to"},
		},
		{
			n: "7", fault: "Redis hung", injected: "SIGSTOP, SIGCONT a minute later",
			run: redisHung, alone: true, control: control{without: "patience", finds: "waits? for Redis"},
		},
		{
			n: "12", fault: "wrong eviction policy", injected: "allkeys-lru at start, and by CONFIG SET later",
			run: redisEvicts, control: control{without: "policy", finds: "started all the same"},
		},
		{
			n: "13", fault: "pool dry and worker dead", injected: "SIGKILL of the only worker",
			run: poolDry, control: control{without: "deadman", finds: "^no alarm"},
		},
		{
			n: "14a", fault: "worker cannot connect", injected: "its way to Redis resets every connection",
			run: workerCannotConnect, control: control{without: "deadman", finds: "^no alarm"},
		},
		{
			n: "14b", fault: "worker's pushes fail", injected: "its Redis user may not RPUSH",
			run: pushesFail, control: control{without: "deadman", finds: "^no alarm"},
		},
		{
			n: "14c", fault: "worker spins", injected: "it leaves out what ships a range",
			run: workerSpins, failpoints: true, control: control{without: "deadman", finds: "^no alarm"},
		},
		{
			n: "17", fault: "Postgres fails over to a lagging standby", injected: "SIGKILL of the primary, promotion of a standby that has applied nothing since the load began",
			run: postgresFailsOver, control: control{without: "jump,floor", finds: "and again for"},
		},
		{
			n: "17b", fault: "Postgres restored from a copy", injected: "older files put back while all is down",
			run: postgresRestored, control: control{without: "jump,floor", finds: "and again for"},
		},
		{
			n: "21", fault: "wrong FF1 key", injected: "another key, none, and no permutation, for servers and workers",
			run: wrongSecret, control: control{without: "fingerprint", finds: "started all the same"},
		},
		{
			n: "22", fault: "clocks jump an hour", injected: "those of Postgres and Redis, forth and back",
			run: clocksJump, control: control{without: "beats", finds: "keys of the living were written off"},
		},
		{
			n: "walk", fault: "a space walked to its end", injected: "8 workers killed at random", run: walkToTheEnd,
			control: control{without: "mark", finds: "there twice"},
		},
		{n: "start", fault: "16 servers start on an empty SQLite file", injected: "at the same moment, with 16 migrations", run: startEmbedded},
		{n: "startb", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "one of two servers and one of two workers killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
