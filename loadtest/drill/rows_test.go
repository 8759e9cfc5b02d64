//go:build drill

package drill

// rows is the matrix, and drills beside it. A control that is caught by a link that is
// lost, wrong or there twice says so in the words of judge; by the accounts, in those
// of service.audit.
func rows() []row {
	return []row{
		{n: "1", fault: "server killed, SQLite", injected: "SIGKILL under load, every fourth in the middle of the start", run: killEmbedded},
		{n: "1b", fault: "server killed, Postgres and Redis", injected: "the same", run: killPostgres},
		{n: "2", fault: "server stopped in order, SQLite", injected: "SIGTERM under load and with half-sent requests", run: stopEmbedded},
		{n: "2b", fault: "server stopped in order, Postgres and Redis", injected: "the same", run: stopPostgres},
		{n: "6", fault: "Redis down", injected: "SIGKILL, restarted later", run: redisKilled},
		{n: "7", fault: "Redis hung", injected: "SIGSTOP, SIGCONT later", run: redisHung, alone: true},
		{
			n: "4", fault: "worker frozen, its range adopted, then thawed", injected: "SIGSTOP by itself between reserve and push, SIGCONT after the range was delivered by another",
			run: workerThaws, failpoints: true, control: control{without: "floor", finds: "audit ended with status 1"},
		},
		{
			n: "5", fault: "16 workers at once", injected: "started at the same moment on an empty pool",
			run: workersAtOnce, control: control{without: "size", finds: "over capacity"},
		},
		{
			n: "12", fault: "wrong eviction policy", injected: "allkeys-lru at start, and by CONFIG SET later",
			run: redisEvicts, control: control{without: "policy", finds: "started all the same"},
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
		{n: "start-b", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "a server and a worker of two each killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
