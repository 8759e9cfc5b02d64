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
			n: "6", fault: "Redis down", injected: "SIGKILL, restarted a minute later",
			run: redisKilled, control: control{settings: []string{"FALLBACK=none"}, finds: "^available to"},
		},
		{
			n: "7", fault: "Redis hung", injected: "SIGSTOP, SIGCONT a minute later",
			run: redisHung, alone: true, control: control{without: "patience", finds: "waits? for Redis"},
		},
		{n: "start", fault: "16 servers start on an empty SQLite file", injected: "at the same moment, with 16 migrations", run: startEmbedded},
		{n: "start-b", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "one of two servers and one of two workers killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
