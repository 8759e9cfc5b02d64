package controls

// Table lists every control, in the order of the files that they edit first.
//
//nolint:funlen // it is one table
func Table() []Control {
	return []Control{
		{
			Name:       "deadman",
			Protection: "The dead man's switch raises an alarm when a pool runs dry or a worker is useless.",
			Edits: []Edit{{
				"kgs/deadman_judge.go",
				"d.enter(state, why, now)",
				"if state.Alarm() {\n\t\t\treturn doNothing\n\t\t}\n\t\td.enter(state, why, now)",
			}},
		},
		{
			Name:       "fingerprint",
			Protection: "A process that has another FF1 key than the ledger refuses to start.",
			Edits: []Edit{{
				"kgs/ledger.go",
				"if space.Fingerprint() != fingerprint {",
				"if false {",
			}},
		},
		{
			Name:       "skip-ahead",
			Protection: "A ledger whose database came back from an older state skips every number that may have been issued since.",
			Edits: []Edit{{
				"kgs/ledger_jump.go",
				"if kept == present && !behind {",
				"if kept == present || true {",
			}, {
				"kgs/ledger_reserve.go",
				"if run.Lo < p.reached.soFar().Next[run.Length] {",
				"if false {",
			}, {
				"kgs/ship_redis.go",
				"if err != nil || pool.Epoch <= epoch.Number {",
				"if err != nil || true {",
			}},
		},
		{
			Name:       "heartbeats",
			Protection: "A process counts as dead by the silence that another process measures, and not by the clock of the database.",
			Edits: []Edit{{
				"kgs/ledger_settle.go",
				"dead, err := collect(ctx, p.Tx, scanRun,",
				"if err := p.exec(ctx, `DELETE FROM kgs_holders WHERE seen_at < clock_timestamp() - interval '30 seconds'`); err != nil {\n" +
					"\t\t\treturn err\n\t\t}\n\t\tdead, err := collect(ctx, p.Tx, scanRun,",
			}},
		},
		{
			Name:       "batch-record",
			Protection: "A holder settles a batch only while Redis has it on record.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if not codes then return 0 end\n",
				"codes = codes or first\n",
			}},
		},
		{
			Name:       "floor",
			Protection: "Redis refuses a push from a range that another worker has delivered.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if tonumber(id) < tonumber(floor) then return redis.error_reply('FENCED the range is delivered') end\n",
				"",
			}},
		},
		{
			Name:       "guard",
			Protection: "Redis refuses every operation on a pool that came back from an older state.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if opened ~= run then return redis.error_reply('NOEPOCH the pool lost its state') end\n",
				"",
			}, {
				"kgs/pool_redis_scripts.go",
				"if opened ~= run then isOpen = '' end\n",
				"",
			}},
		},
		{
			Name:       "mark",
			Protection: "Redis accepts only the chunk that follows the last one of a range.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if mark ~= from then return mark end\n",
				"",
			}},
		},
		{
			Name:       "same-batch",
			Protection: "A holder settles only the batch that it took, and not another one with the same id.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if string.sub(codes, 1, #first) ~= first then return 0 end\n",
				"",
			}},
		},
		{
			Name:       "take-id",
			Protection: "A take that is repeated with the same batch id gets the same batch.",
			Edits: []Edit{{
				"kgs/pool_redis_scripts.go",
				"if tonumber(id) <= last then return redis.call('HGET', batches, field) or '' end\n",
				"",
			}},
		},
		{
			Name:       "policy",
			Protection: "A Redis that may evict keys keeps the programs from starting and raises an alarm.",
			Edits: []Edit{{
				"kgs/pool_redis_status.go",
				`return s.Policy != "" && s.Policy != "noeviction"`,
				"return false",
			}},
		},
		{
			Name:       "even",
			Protection: "Random codes use every character equally often.",
			Edits: []Edit{{
				"kgs/random.go",
				"if int(b) < unbiased && n < length {",
				"if n < length {",
			}},
		},
		{
			Name:       "machine-fence",
			Protection: "A Snowflake process makes numbers only within its promise, and none from before it.",
			Edits: []Edit{{
				"kgs/snowflake.go",
				"case ms >= s.lease.until:",
				"case false:",
			}, {
				"kgs/snowflake_lease.go",
				"s.next = max(s.next, from<<sequenceBits)",
				"",
			}},
		},
		{
			Name:       "once",
			Protection: "A server hands out each key of its batch once.",
			Edits: []Edit{{
				"kgs/source.go",
				"i := l.next.Add(1) - 1",
				"i := (l.next.Add(1) - 1) / 2 * 2",
			}},
		},
		{
			Name:       "patience",
			Protection: "A creation waits for a refill for a bounded time, and not at all once refills fail.",
			Edits: []Edit{{
				"kgs/source.go",
				"time.NewTimer(s.cfg.Patience)",
				"time.NewTimer(1<<63 - 1)",
			}, {
				"kgs/source.go",
				"if s.failing != nil && !starting {",
				"if s.failing != nil && !starting && false {",
			}, {
				"kgs/source.go",
				"if !s.began.IsZero() && time.Since(s.began) >= s.cfg.Patience {",
				"if false {",
			}},
		},
		{
			Name:       "handback",
			Protection: "A server that stops in order returns its unused keys.",
			Edits: []Edit{{
				"kgs/source_refill.go",
				"if err := s.settle(ctx, l, codes); err != nil {",
				"if err := ctx.Err(); err != nil {",
			}},
		},
		{
			Name:       "size",
			Protection: "A worker stops at the number of keys that the pool holds, and not at the number that it shipped itself.",
			Edits: []Edit{{
				"kgs/worker.go",
				"if err != nil || size >= mark {",
				"if size = w.shipped; err != nil || size >= mark {",
			}},
		},
		{
			Name:       "commit",
			Protection: "A creation is acknowledged only after its link is durable.",
			Edits: []Edit{{
				"shortener/committer.go",
				"p.timer.Reset(patience)\n",
				"return Inserted, nil\n",
			}},
		},
		{
			Name:       "store",
			Protection: "A creation is acknowledged only if its link is stored.",
			Edits: []Edit{{
				"shortener/committer.go",
				"p := c.free.Get().(*pending)\n",
				"return Inserted, nil\n\tp := c.free.Get().(*pending)\n",
			}},
		},
		{
			Name:       "conflict",
			Protection: "A key whose code another link has is replaced by the next key.",
			Edits: []Edit{{
				"shortener/create.go",
				"source.conflicts.Inc()\n",
				"return Inserted, nil\n",
			}},
		},
		{
			Name:       "repeat",
			Protection: "An insert of unknown outcome is repeated with the same key, and no other key is tried.",
			Edits: []Edit{{
				"shortener/create.go",
				`return 0, fmt.Errorf("commit a key: %w", err)`,
				"return Conflict, nil",
			}, {
				"shortener/inserter.go",
				"if !awaited(group) || !sleep(ctx, pause) {",
				"if true || !awaited(group) || !sleep(ctx, pause) {",
			}},
		},
		{
			Name:       "busy",
			Protection: "SQLite waits for a lock that another process holds.",
			Edits: []Edit{{
				"shortener/store_sqlite.go",
				"tx, err := conn.BeginTx(ctx, nil)\n",
				"if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {\n\t\treturn nil, notWritten(err)\n\t}\n" +
					"\ttx, err := conn.BeginTx(ctx, nil)\n",
			}},
		},
	}
}
