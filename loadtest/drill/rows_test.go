//go:build drill

package drill

// unjust matches the words of judge for links that are not what was promised.
const unjust = `[1-9]\d* (are lost|wrong|there twice)`

// rows is the matrix, and drills beside it.
func rows() []row {
	return []row{
		{
			n: "1", fault: "server killed, SQLite", injected: "SIGKILL under load, every fourth in the middle of the start",
			run: killEmbedded, control: control{without: []string{"commit"}, finds: unjust},
		},
		{
			n: "1b", fault: "server killed, Postgres and Redis", injected: "as 1",
			run: killPostgres, control: control{without: []string{"commit"}, finds: unjust},
		},
		{
			n: "2", fault: "server stopped in order, SQLite", injected: "SIGTERM under load and with half-sent requests",
			run: stopEmbedded, control: control{without: []string{"handback"}, finds: `left [1-9]\d* in batches`},
		},
		{
			n: "2b", fault: "server stopped in order, Postgres and Redis", injected: "as 2",
			run: stopPostgres, control: control{without: []string{"handback"}, finds: `left [1-9]\d* in batches`},
		},
		{
			n: "3", fault: "worker killed at each step", injected: "SIGKILL by itself: epoch opened, range reserved, chunk pushed, all pushed, delivered, forgotten",
			run: workerKilled, failpoints: true, control: control{without: []string{"mark"}, finds: `"duplicate"|"reused"`},
		},
		{
			n: "4", fault: "worker frozen, its range adopted, then thawed", injected: "SIGSTOP by itself between reserve and push, SIGCONT after the range was delivered by another",
			run: workerThaws, failpoints: true, control: control{without: []string{"floor"}, finds: `"duplicate"|"reused"`},
		},
		{
			n: "5", fault: "16 workers at once", injected: "started at the same moment on an empty pool",
			run: workersAtOnce, control: control{without: []string{"size"}, finds: "over capacity"},
		},
		{
			n: "6", fault: "Redis down", injected: "SIGKILL, restarted a minute later",
			run: redisKilled, control: control{settings: []string{"FALLBACK=none"}, finds: "^available to"},
		},
		{
			n: "7", fault: "Redis hung", injected: "SIGSTOP, SIGCONT a minute later",
			run: redisHung, alone: true, control: control{without: []string{"patience"}, finds: "creations wait for Redis"},
		},
		{
			n: "8", fault: "reply of a take lost", injected: "a proxy cuts every second one in the middle",
			run: takeReplyLost, control: control{without: []string{"take-id"}, finds: `"missing"`},
		},
		{
			n: "9", fault: "reply of a push lost", injected: "a proxy cuts every third one",
			run: pushReplyLost, control: control{without: []string{"mark"}, finds: `"duplicate"|"reused"`},
		},
		{
			n: "10", fault: "Redis restarted from an older snapshot", injected: "SAVE, 100,000 keys taken by each of two servers, SIGKILL, restart",
			run: redisRestored, control: control{without: []string{"guard"}, finds: "epoch .* is not renewed"},
		},
		{
			n: "10b", fault: "as 10, and the pool comes back looking full", injected: "as 10",
			run: redisRestoredFull, control: control{without: []string{"guard"}, finds: "epoch .* is not renewed"},
		},
		{
			n: "11", fault: "Redis fails over to a lagging replica", injected: "SIGSTOP of the replica, as many keys taken, SIGKILL of the master, promotion",
			run: redisFailsOver, control: control{without: []string{"guard"}, finds: "epoch .* is not renewed"},
		},
		{
			n: "11b", fault: "as 11, by a Sentinel", injected: "as 11, and the Sentinel promotes",
			run: sentinelFailsOver, control: control{without: []string{"guard"}, finds: "epoch .* is not renewed"},
		},
		{
			n: "12", fault: "wrong eviction policy", injected: "allkeys-lru at start, and by CONFIG SET later",
			run: redisEvicts, control: control{without: []string{"policy"}, finds: "started all the same"},
		},
		{
			n: "13", fault: "pool dry and worker dead", injected: "SIGKILL of the only worker",
			run: poolDry, control: control{without: []string{"deadman"}, finds: "^no alarm"},
		},
		{
			n: "14a", fault: "worker cannot connect", injected: "its way to Redis resets every connection",
			run: workerCannotConnect, control: control{without: []string{"deadman"}, finds: "^no alarm"},
		},
		{
			n: "14b", fault: "worker's pushes fail", injected: "its Redis user may not RPUSH",
			run: pushesFail, control: control{without: []string{"deadman"}, finds: "^no alarm"},
		},
		{
			n: "14c", fault: "worker spins", injected: "it leaves out what ships a range",
			run: workerSpins, failpoints: true, control: control{without: []string{"deadman"}, finds: "^no alarm"},
		},
		{
			n: "15", fault: "Postgres crashes", injected: "SIGKILL under load, restarted 3 s later",
			run: postgresKilled, alone: true, control: control{without: []string{"commit", "repeat"}, finds: unjust},
		},
		{
			n: "16", fault: "commit acknowledged but reply lost", injected: "a proxy resets the connection at every fifth one",
			run: commitReplyLost, control: control{without: []string{"repeat"}, finds: unjust},
		},
		{
			n: "17", fault: "Postgres fails over to a lagging standby", injected: "SIGKILL of the primary, promotion of a standby that has applied nothing since the load began",
			run: postgresFailsOver, control: control{without: []string{"skip-ahead", "floor"}, finds: "and again for"},
		},
		{
			n: "17b", fault: "Postgres restored from a copy", injected: "older files put back while all is down",
			run: postgresRestored, control: control{without: []string{"skip-ahead", "floor"}, finds: "and again for"},
		},
		{
			n: "18", fault: "disk full, SQLite", injected: "a ballast file on a tmpfs of 16 MB, removed later",
			run: diskFullEmbedded, control: control{without: []string{"commit"}, finds: unjust},
		},
		{
			n: "18b", fault: "disk full, Postgres", injected: "as 18, with the tables on the tmpfs",
			run: diskFullPostgres, control: control{without: []string{"commit"}, finds: unjust},
		},
		{
			n: "19", fault: "SQLite under 32 writers and a backup", injected: "VACUUM INTO and audit, again and again, beside two servers",
			run: busyEmbedded, alone: true, control: control{without: []string{"busy"}, finds: `[1-9]\d* creations failed`},
		},
		{
			n: "21", fault: "wrong FF1 key", injected: "another key, none, and no permutation, for servers and workers",
			run: wrongSecret, control: control{without: []string{"fingerprint"}, finds: "started all the same"},
		},
		{
			n: "22", fault: "clocks jump an hour", injected: "those of Postgres and Redis, forth and back",
			run: clocksJump, control: control{without: []string{"heartbeats"}, finds: "keys of the living were written off"},
		},
		{n: "walk", fault: "whole spaces walked to their ends", injected: "8 workers, SIGKILL at random", run: walkToTheEnd, alone: true},
		{n: "start", fault: "16 servers start on an empty SQLite file", injected: "at the same moment, with 16 migrations", run: startEmbedded},
		{n: "startb", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "one of two servers and one of two workers killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
