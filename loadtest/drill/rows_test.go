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
		{n: "8", fault: "reply of a take lost", injected: "a proxy cuts every second one in the middle", run: takeReplyLost,
			control: control{without: "takeid", finds: `"missing"`}},
		{n: "9", fault: "reply of a push lost", injected: "a proxy cuts every third one", run: pushReplyLost,
			control: control{without: "mark", finds: `"duplicate"|"reused"`}},
		{n: "10", fault: "Redis restarted from an older snapshot", injected: "SAVE, 100,000 keys taken by each of two servers, SIGKILL, restart", run: redisRestored,
			control: control{without: "guard", finds: "epoch .* is not renewed"}},
		{n: "10b", fault: "the same, and it comes back looking full", injected: "the same", run: redisRestoredFull,
			control: control{without: "guard", finds: "epoch .* is not renewed"}},
		{n: "11", fault: "Redis fails over to a lagging replica", injected: "SIGSTOP of the replica, as many keys taken, SIGKILL of the master, promotion", run: redisFailsOver,
			control: control{without: "guard", finds: "epoch .* is not renewed"}},
		{n: "15", fault: "Postgres crashes", injected: "SIGKILL under load, restarted 3 s later", run: postgresKilled, alone: true,
			control: control{without: "commit", finds: "of [0-9]+ links [1-9][0-9]* are lost"}},
		{n: "16", fault: "commit acknowledged but reply lost", injected: "a proxy resets the connection at every fifth one", run: commitReplyLost,
			control: control{without: "repeat", finds: "[1-9][0-9]* there twice"}},
		{n: "18", fault: "disk full, SQLite", injected: "a ballast file on a tmpfs of 16 MB, removed later", run: diskFullEmbedded,
			control: control{without: "commit", finds: "of [0-9]+ links [1-9][0-9]* are lost"}},
		{n: "18b", fault: "disk full, Postgres", injected: "the same, with the tables on the tmpfs", run: diskFullPostgres,
			control: control{without: "commit", finds: "of [0-9]+ links [1-9][0-9]* are lost"}},
		{n: "19", fault: "SQLite under 32 writers and a backup", injected: "VACUUM INTO and audit, again and again, beside two servers", run: busyEmbedded,
			control: control{without: "busy", finds: "[1-9][0-9]* creations failed"}},
		{n: "start", fault: "16 servers start on an empty SQLite file", injected: "at the same moment, with 16 migrations", run: startEmbedded},
		{n: "start-b", fault: "16 servers start on an empty Postgres", injected: "the same", run: startPostgres},
		{n: "2x2", fault: "a server and a worker of two each killed", injected: "SIGKILL under load", run: twoByTwo},
	}
}
