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
		{n: "start", fault: "16 servers start on an empty SQLite file", injected: "at the same moment, with 16 migrations", run: startEmbedded},
		{n: "start-b", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "a server and a worker of two each killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
