package controls

// Table lists the edits of every control. The controls are sorted by the file of their first edit, and then by name. The
// comment before a control describes the protection that the control removes. docs/glossary.md explains the terms.
//
//nolint:funlen // the function is one table
func Table() []Edit {
	return []Edit{
		// PostgreSQL closes the connection of a client that does not answer TCP keepalives.
		{"keepalives", "cmd/internal/app/connect.go",
			"_, err := conn.PgConn().Exec(ctx, setKeepalives).ReadAll()",
			"_, err := conn.PgConn().Exec(ctx, `SELECT 1`).ReadAll()"},
		// The number of HTTP/2 requests in progress on a connection of the key service has a low limit.
		{"http2-streams", "cmd/internal/app/connections.go",
			"MaxConcurrentStreams: maxStreams,",
			"MaxConcurrentStreams: 250,"},
		// A write to a closed standard error does not end the process.
		{"log-pipe", "cmd/internal/app/console.go",
			"signal.Ignore(syscall.SIGPIPE)",
			"_, _ = signal.Ignore, syscall.SIGPIPE"},
		// A program that logs does not wait if no process reads its standard error.
		{"log-queue", "cmd/internal/app/lines.go",
			"select {\n\tcase l.queue <- bytes.Clone(line):\n\tdefault:\n\t\tl.dropped.Inc()\n\t}\n",
			"l.put(bytes.Clone(line))\n"},
		// Behind a connection pooler, a program prepares no statements.
		{"pooler", "cmd/internal/app/pooler.go",
			"if cfg.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {",
			"if true {"},
		// A program refuses to start if REDIS_URL names a replica that accepts no writes.
		{"redis-replica", "cmd/internal/app/redis.go",
			"if strings.Contains(string(c.RedisURL), \"master_name=\") {",
			"if true || strings.Contains(string(c.RedisURL), \"master_name=\") {"},
		// The buffers that the kernel has for a connection do not grow.
		{"socket-buffers", "cmd/internal/program/sockets.go",
			"return errors.Join(err, sendErr, receiveErr)\n\t}}",
			"return errors.Join(err, sendErr, receiveErr)\n\t}}\n\tc.Control = nil"},
		// A server knows which node of a Citus cluster stores each link.
		{"placement", "cmd/internal/server/shards.go",
			"err != nil || !distributed {",
			"err != nil || true || !distributed {"},
		// The write-ahead log of SQLite takes only a part of a small disk.
		{"small-log", "internal/sqlite/checkpoint.go",
			"restart := max(walLeast, min(walRestart, (free+length)/walPart))",
			"restart := max(walLeast, walRestart+0*free)"},
		// A server commits no transaction of SQLite after the files of the database were moved, deleted, replaced or
		// overwritten.
		{"file-guard", "internal/sqlite/guard.go",
			"if files == nil {",
			"if files == nil || true {"},
		// If the path of the database is a symbolic link, a server commits no transaction while this symbolic link leads to
		// another file.
		{"link-guard", "internal/sqlite/guard.go",
			"if g.name != g.path {",
			"if false && g.name != g.path {"},
		// A program creates no database file if a log exists, because SQLite would delete the log.
		{"left-log", "internal/sqlite/sqlite.go",
			"if err := RequireFile(path); err != nil {",
			"if err := RequireFile(path); err != nil && false {"},
		// A string that cannot be a code does not become the code of a link, even if the key service sends it.
		{"remote-codes", "kgs/keyserver/remote.go",
			"return !s.space.IsCode(code)",
			"return false && !s.space.IsCode(code)"},
		// Random codes contain every character with equal probability.
		{"even", "kgs/keysource/random.go",
			"if int(b) < unbiased && n < length {",
			"if n < length {"},
		// A skip-ahead of a counter also skips numbers above the high-water mark of the process, because other processes
		// may have taken them before the rollback.
		{"counter-margin", "kgs/keysource/rollback.go",
			"skipTo(mark + margin(h.length, mark))",
			"skipTo(mark + 0*margin(h.length, mark))"},
		// A process issues a number of a counter only if the number is above every number that the process took before.
		{"counter-mark", "kgs/keysource/rollback.go",
			"if err == nil && first <= mark {",
			"if err == nil && first <= mark && false {"},
		// The successive holders of a machine id use disjoint intervals of time. A process makes no number whose time is
		// before the process acquired the machine id. It also makes no number whose time is at or after the end of its
		// promise.
		{"machine-fence", "kgs/keysource/snowflake.go",
			"case ms >= s.promise.until:",
			"case false:"},
		{"machine-fence", "kgs/keysource/snowflake_promise.go",
			"s.next = max(s.next, from<<sequenceBits)",
			""},
		// A process that takes tickets holds a shared lock, so a skip-ahead of the ticket database waits for the takes in
		// progress.
		{"ticket-lock", "kgs/keysource/tickets.go",
			"SELECT pg_advisory_xact_lock_shared('%[1]s'::regclass::bigint)",
			"SELECT '%[1]s'::regclass::bigint"},
		// A new epoch of one list of a pool does not abandon ranges that workers push to other lists.
		{"list-epoch", "kgs/ledger/epoch.go",
			" AND epoch NOT IN (SELECT epoch FROM kgs_epochs WHERE list <> $1)`, list)",
			"`)"},
		// A process counts as dead if another process sees no heartbeat from it for some time. The other process measures
		// this time by its own clock. The clock of the database has no influence.
		{"heartbeats", "kgs/ledger/holders.go",
			"dead, err := collect(ctx, t.Tx, scanRange,",
			"if err := t.exec(ctx, `DELETE FROM kgs_holders WHERE seen_at < clock_timestamp() - interval '30 seconds'`); err != nil {\n" +
				"\t\t\treturn err\n\t\t}\n\t\tdead, err := collect(ctx, t.Tx, scanRange,"},
		// A process refuses to start if its FF1 key differs from the key of the ledger.
		{"fingerprint", "kgs/ledger/ledger.go",
			"if space.Fingerprint() != fingerprint {",
			"if false {"},
		// If another ledger replaces the ledger of a running process, the process does not change the new ledger.
		{"ledger-name", "kgs/ledger/ledger.go",
			"own != \"\" && name != \"\" && name != own",
			"own != own && name != own"},
		// With SQLite, a program that starts declares killed processes dead. Their ranges can then be adopted at once.
		{"presence", "kgs/ledger/presence.go",
			"if !announced {",
			"if true || !announced {"},
		// If a batch consists of a whole range, the cut gives the batch a new id, so that the witness records the cut.
		{"cut-id", "kgs/ledger/reserve.go",
			"batch.ID = t.nextID()",
			""},
		// If the database returns to an older state, the ledger skips every number that may have been issued after that
		// state.
		{"skip-ahead", "kgs/ledger/rollback.go",
			"if kept == present && !behind {",
			"if kept == present || true {"},
		{"skip-ahead", "kgs/ledger/reserve.go",
			"if numbers.Lo < t.highWater.mark().Next[numbers.Length] {",
			"if false {"},
		{"skip-ahead", "kgs/redispool/prepare.go",
			"if err != nil || pool.Epoch <= epoch.Number {",
			"if err != nil || true {"},
		// If the witness is damaged, the ledger skips ahead, because the database may be older than the witness.
		{"damaged-witness", "kgs/ledger/witness.go",
			"return t.skipDamaged(ctx, w)",
			"return nil"},
		// After a restore of an older SQLite file, the ledger reads the high-water mark from the witness beside the file.
		{"witness", "kgs/ledger/witness.go",
			"l.Remember(mark)",
			"mark.Next = nil"},
		// If older files replace the files of PostgreSQL, a running process takes no keys of the older pool.
		{"transactions", "kgs/pgpool/pool.go",
			"if transactions < known {",
			"if false {"},
		{"transactions", "kgs/pgpool/sql.go",
			"+ transactions + ` >= $3",
			"+ transactions + ` >= $3 IS NOT NULL"},
		// A client of a Redis Cluster looks for the new master when a master does not reply.
		{"cluster-reload", "kgs/redispool/client.go",
			"if err != nil && !errors.As(err, &reply) {",
			"if err != nil && !errors.As(err, &reply) && false {"},
		// A server discards strings in the pool that are not codes of its space.
		{"valid-codes", "kgs/redispool/damage.go",
			"if first < 0 {",
			"if first < 0 || true {"},
		// After some time, a live worker gives up a range that it cannot push.
		{"give-up", "kgs/redispool/give_up.go",
			"case time.Since(f.failing) < giveUpAfter:",
			"case true:"},
		// After a new epoch begins, servers record again the batches that they took in earlier epochs.
		{"held-batches", "kgs/redispool/held.go",
			"range p.held.unrecorded(epoch) {",
			"range p.held.unrecorded(epoch)[:0] {"},
		// After a new epoch begins, a script records each batch again. If this script reaches Redis after the batch is
		// settled, the server deletes the record.
		{"late-record", "kgs/redispool/held.go",
			"h.late = append(h.late, b)",
			"_ = b"},
		// A process records its batches again even if the new epoch has a lower number than an earlier epoch. This happens
		// if PostgreSQL and Redis both return to older states.
		{"lower-epoch", "kgs/redispool/held.go",
			"if b.recorded != epoch {",
			"if b.recorded < epoch {"},
		// If two workers of one ledger use different pools, each worker opens a new epoch in reaction to the other. After
		// several epochs for the same pools within a day, a worker waits before it opens the next epoch.
		{"epoch-backoff", "kgs/redispool/prepare.go",
			"if err != nil || repeated < limit {",
			"if err != nil || true || repeated < limit {"},
		// If a pool belongs to another database, the ledger skips the numbers of the pool. Its own database may be a backup
		// of the other database, and then these numbers have been issued.
		{"foreign-numbers", "kgs/redispool/prepare.go",
			"return errors.Join(err, f.skipForeign(ctx, status.HighWater))",
			"return err"},
		// A worker begins no epoch while Redis refuses writes. Otherwise, each attempt would leave rows in the ledger for ever.
		{"refused-epoch", "kgs/redispool/prepare.go",
			"err := f.cfg.Pool.CheckWrites(ctx, seen.RunID); err != nil {",
			"err := f.cfg.Pool.CheckWrites(ctx, seen.RunID); err != nil && false {"},
		// Redis refuses a push from a range that another worker has delivered.
		{"floor", "kgs/redispool/push.go",
			"if tonumber(id) < tonumber(floor) then return redis.error_reply('FENCED the range is delivered') end\n",
			""},
		// Redis accepts a part of a range only if this part directly follows the part that Redis accepted last.
		{"mark", "kgs/redispool/push.go",
			"if mark ~= from then return mark end\n",
			""},
		// After a rollback of a pool, Redis refuses every operation on the pool.
		{"guard", "kgs/redispool/scripts.go",
			"if opened ~= run then return redis.error_reply('NOEPOCH the pool lost its state') end\n",
			""},
		{"guard", "kgs/redispool/status.go",
			"if opened ~= run then isOpen = '' end\n",
			""},
		// If a Redis key of the pool has a wrong type, a program deletes this Redis key, so that a worker can begin a new epoch.
		{"key-types", "kgs/redispool/scripts.go",
			"case isWrongType(err):",
			"case false && isWrongType(err):"},
		// Redis refuses a program whose database is not the database that the pool belongs to.
		{"pool-owner", "kgs/redispool/scripts.go",
			"local isForeign = owner and owner ~= '' and caller ~= '' and owner ~= caller\n",
			"local isForeign = false\n"},
		// If Redis may evict keys, a program refuses to start, and a running program raises an alarm.
		{"policy", "kgs/redispool/status.go",
			`return s.Policy != "" && s.Policy != "noeviction"`,
			"return false"},
		// If the state of a pool contains a number that no program writes, the pool counts as damaged and is abandoned.
		{"pool-values", "kgs/redispool/status.go",
			"if err != nil || n < 0 || n > most {",
			"if err != nil {"},
		// The keys of dead holders are abandoned even if Redis is at its memory limit and cannot record batches again.
		{"full-redis", "kgs/redispool/sweep.go",
			"abandoned, err = p.writeOff(ctx, fields)\n",
			"if err := p.recordAgain(ctx, epoch); err != nil {\n\t\treturn 0, err\n\t}\n\tabandoned, err = p.writeOff(ctx, fields)\n"},
		// A holder can settle a batch only while Redis has a record of the batch.
		{"batch-record", "kgs/redispool/take.go",
			"if not codes then return {0, tonumber(epoch)} end\n",
			"codes = codes or first\n"},
		// A holder can settle only the batch that it took, and not another batch with the same id.
		{"same-batch", "kgs/redispool/take.go",
			"if string.sub(codes, 1, #first) ~= first then return {0, tonumber(epoch)} end\n",
			""},
		// If a server repeats a take with the batch id of its last take, it gets the batch of its last take again.
		{"take-id", "kgs/redispool/take.go",
			"if tonumber(id) <= last then\n",
			"if false then\n"},
		// If the Redis user of a server lacks the right to record a batch, a take removes no keys from the pool.
		{"take-rights", "kgs/redispool/take.go",
			"redis.call('HSET', takes, holder, last)\n",
			""},
		// The dead man's switch raises an alarm when the pool is nearly empty or no keys arrive.
		{"deadman", "kgs/refill/deadman_state.go",
			"d.enter(state, why, now)",
			"if state.Alarm() {\n\t\t\treturn doNothing\n\t\t}\n\t\td.enter(state, why, now)"},
		// A worker stops when the pool has enough keys, and not when the worker itself has pushed enough keys.
		{"size", "kgs/refill/worker.go",
			"if size >= w.mark {",
			"if size = w.pushed; size >= w.mark {"},
		// A server assigns each key of its batch only once.
		{"once", "kgs/source.go",
			"i := l.next.Add(1) - 1",
			"i := (l.next.Add(1) - 1) / 2 * 2"},
		// A creation waits for a refill only for a limited time. It does not wait while refills fail.
		{"patience", "kgs/source.go",
			"time.NewTimer(s.cfg.Patience)",
			"time.NewTimer(1<<63 - 1)"},
		{"patience", "kgs/source.go",
			"if s.failing != nil && !starting {",
			"if s.failing != nil && !starting && false {"},
		{"patience", "kgs/source.go",
			"if !s.began.IsZero() && time.Since(s.began) >= s.cfg.Patience {",
			"if false {"},
		// A server that gets SIGTERM returns its unused keys before it ends.
		{"handback", "kgs/source_refill.go",
			"if err := s.settle(ctx, l, codes); err != nil {",
			"if err := ctx.Err(); err != nil {"},
		// A server takes further batches while an earlier batch cannot be settled.
		{"settle-later", "kgs/source_refill.go",
			"if s.unsettled() > maxUnsettled {",
			"if s.unsettled() > 0 {"},
		// A migration refuses a database of another program before it creates a table.
		{"foreign-tables", "migrations/foreign.go",
			"err = checkUnused(ctx, db, engine)",
			"_ = checkUnused(ctx, db, engine)"},
		// When shards move to another node, a server learns on which node they are.
		{"places", "shortener/citusstore/citusstore.go",
			"return s.refresh(ctx, placementTimeout)",
			"return ctx.Err()"},
		// A creation is acknowledged only after its link is durable.
		{"commit", "shortener/commit/committer.go",
			"\tif err := c.enqueue(p); err != nil {\n\t\tc.free.Put(p)\n\t\treturn 0, err\n\t}\n\tp.timer.Reset(commitTimeout)\n",
			"\tgo func() {\n\t\ttime.Sleep(100 * time.Millisecond) // longer than a commit, so that a kill loses links\n\t\t_ = c.enqueue(p)\n\t}()\n" +
				"\treturn shortener.Inserted, nil\n"},
		// A creation is acknowledged only if its link is stored.
		{"store", "shortener/commit/committer.go",
			"p := c.free.Get().(*pending)\n",
			"return shortener.Inserted, nil\n\tp := c.free.Get().(*pending)\n"},
		// While an Insert in one part of the store is slow, or after it failed, new links get keys of the other parts.
		{"slow-part", "shortener/commit/health.go",
			"return other != part && c != nil && c.health.good()",
			"return false && other != part && c != nil && c.health.good()"},
		// If the outcome of an insert is unknown, the server repeats the insert with the same key and tries no other
		// key.
		{"repeat", "shortener/commit/inserter.go",
			"if !awaited(group) || !sleep(ctx, pause) {",
			"if true || !awaited(group) || !sleep(ctx, pause) {"},
		{"repeat", "shortener/commit/search.go",
			`return false, fmt.Errorf("commit a key: %w", err)`,
			"return false, nil"},
		// If another link already has the code of a key, the creation takes the next key.
		{"conflict", "shortener/commit/search.go",
			"s.parts.Metrics.source(key.Source).conflicts.Inc()\n",
			"return true, nil\n"},
		// A host that is too long is not converted to punycode.
		{"host-bound", "shortener/destination/url.go",
			"if utf8.RuneCountInString(host) > maxHost {",
			"if false && utf8.RuneCountInString(host) > maxHost {"},
		// Until an idempotency key expires, it belongs to the first creation that has it.
		{"first-key", "shortener/pgstore/idempotency.go",
			"WHERE excluded.created_at - idempotency_keys.created_at > interval '%d seconds'",
			"WHERE %d > 0"},
		{"first-key", "shortener/sqlitestore/idempotency.go",
			"WHERE idempotency_keys.created_at < ?`",
			"WHERE ? > 0`"},
		// PostgreSQL commits an idempotency key together with its link.
		{"key-with-link", "shortener/pgstore/idempotency.go",
			"taken, busy, err := takeKeys(ctx, tx, links)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n",
			"other, err := s.pool.Begin(ctx)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tdefer func() { _ = other.Rollback(ctx) }()\n" +
				"\ttaken, busy, err := takeKeys(ctx, other, links)\n\tif err == nil {\n\t\terr = other.Commit(ctx)\n\t}\n\tif err != nil {\n\t\treturn nil, err\n\t}\n"},
		// A server does not query a replica that is ahead of a restored primary.
		{"replica-ahead", "shortener/pgstore/lag.go",
			"if seen.lsn > last.lsn {",
			"if false {"},
		// A server does not query a replica whose timeline differs from the timeline of the primary.
		{"replica-timeline", "shortener/pgstore/lag.go",
			"if p.timeline != l.timeline {",
			"if false {"},
		// A change replaces a link only if the link still has the version that the change read.
		{"version", "shortener/pgstore/manage.go",
			" AND coalesce((details->>'version')::bigint, 1) = $3 AND (deleted_at IS NULL OR deleted_at = $6)`",
			" AND $3::bigint IS NOT NULL`"},
		{"version", "shortener/sqlitestore/table.go",
			"AND coalesce(json_extract(details, '$.version'), 1) = ? AND (deleted_at IS NULL OR deleted_at = ?3)`",
			"AND ? IS NOT NULL`"},
		// If the primary does not answer and no replica may be asked, the look-up measures the replicas and tries again.
		{"measure-now", "shortener/pgstore/replicas.go",
			"\t\tr.measureAll(ctx)\n",
			""},
		// A server does not query a replica that lags.
		{"replica-lag", "shortener/pgstore/replicas.go",
			"if applied := replica.applied.Load(); applied != nil && reference.Sub(*applied) <= r.maxLag {",
			"if applied := replica.applied.Load(); applied != nil {"},
		// If a replica lacks a link, the server queries the primary.
		{"replica-miss", "shortener/pgstore/replicas.go",
			"if asked == nil {\n\t\treturn link, nil\n\t}",
			"if asked == nil || isNotFound(asked) {\n\t\treturn link, asked\n\t}"},
		// A link expires at the earliest one second after its creation.
		{"least-life", "shortener/request.go",
			"if t.Before(stamp(now.Add(minExpiry))) {",
			"if false {"},
		// A server uses an answer of the store for at most 0.9 s before it looks the link up again.
		{"freshness", "shortener/service/cache.go",
			"if known && recent(c.start.Add(e.asked), now) {",
			"if known {"},
		// If two changes of a link end at the same time, the cache keeps the later state.
		{"later-change", "shortener/service/cache.go",
			"if e.olderThan(present) {",
			"if false && e.olderThan(present) {"},
		// If a replica that lags returns an earlier state of a link than the cache has, the cache keeps the later state.
		{"later-state", "shortener/service/cache.go",
			"shared.entry = c.latest(shared.entry, shared.answered)",
			"_ = c.latest(shared.entry, shared.answered)"},
		// While the primary does not answer, a replica that lacks a change does not undo this change in the cache.
		{"stopped-primary", "shortener/service/cache.go",
			"max(0, min(found.asked, answered)-present.asked)",
			"max(0, min(found.asked, answered+time.Hour)-present.asked)"},
		// SQLite waits for a lock that another process holds.
		{"busy", "shortener/sqlitestore/sqlitestore.go",
			"tx, err := conn.BeginTx(ctx, nil)\n",
			"if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {\n\t\treturn nil, notWritten(err)\n\t}\n" +
				"\ttx, err := conn.BeginTx(ctx, nil)\n"},
		// A server that has a token in memory learns of a change of the token.
		{"token-reload", "shortener/token/polls.go",
			"e.uses = known.uses",
			"e.uses, e.Token = known.uses, known.Token"},
		// A request with a token in memory needs no query.
		{"token-memory", "shortener/token/registry.go",
			"e := r.tokens.Load().find(id, digest)\n\tif e == nil {\n",
			"e := r.tokens.Load().find(id, digest)\n\tif true {\n"},
		// After a failover that loses a change of a token, the next change sets another version than the lost change.
		{"token-version", "shortener/token/store.go",
			"setVersion(ctx, tx, randomVersion())",
			"setVersion(ctx, tx, 0*randomVersion()+1)"},
		// While the database does not answer, a server has enough memory for the counts of visits of many links.
		{"visit-memory", "shortener/visits/counter.go",
			"max(1, c.MaxRows/shardCount)",
			"1"},
		// A server that gets SIGTERM stores the counts of visits that are in its memory before it ends.
		{"visit-final", "shortener/visits/flusher.go",
			"return c.flushFinally(context.WithoutCancel(ctx))",
			"return nil"},
		// A flush that failed is repeated.
		{"visit-repeat", "shortener/visits/flusher.go",
			"c.mayBeStored = err != nil\n",
			"c.mayBeStored, err = false, nil\n"},
		// If a server repeats a part of a flush that is already stored, the repetition has no effect.
		{"visit-number", "shortener/visits/store.go",
			"if err != nil || !first {",
			"if _ = first; err != nil {"},
		// A part of a flush has no effect if the store does not know the writer of this part.
		{"visit-writer", "shortener/visits/store.go",
			"`UPDATE visit_writers SET sequence = $2, used_at = $3 WHERE id = $1 AND sequence = $2 - 1`",
			"`INSERT INTO visit_writers AS w (id, sequence, used_at) VALUES ($1, $2, $3)\n" +
				"\t\tON CONFLICT (id) DO UPDATE SET sequence = $2, used_at = $3 WHERE w.sequence = $2 - 1`"},
		// The admin listener answers only requests whose Host header has an IP address, localhost or a host in ADMIN_HOSTS.
		{"admin-hosts", "web/admin/hosts.go",
			"if acceptsHost(r.Host, names) {",
			"if true || acceptsHost(r.Host, names) {"},
		// The bulk requests of one token occupy at most one of the four slots for bulk requests.
		{"bulk-share", "web/api/api.go",
			"slots.NewShared[int64](maxBulks, 1)",
			"slots.New[int64](maxBulks)"},
		// The body of a request has a size limit.
		{"body-limit", "web/api/body.go",
			"const maxBody = 16 << 10",
			"const maxBody = 64 << 20"},
		// The read deadline of a bulk request applies only until the body is read. Therefore the deadline cannot interrupt
		// the creation of the links.
		{"bulk-context", "web/api/bulk.go",
			"return lines, connection.SetReadDeadline(time.Time{})",
			"return lines, next()"},
		// A creation with an alias of another link is a miss.
		{"alias-miss", "web/api/create.go",
			"if errors.Is(err, shortener.ErrAliasTaken) {",
			"if false && errors.Is(err, shortener.ErrAliasTaken) {"},
		// A server accepts a forwarded address with a port.
		{"forwarded-port", "web/client/proxies.go",
			"if withPort, err := netip.ParseAddrPort(text); err == nil {",
			"if withPort, err := netip.ParseAddrPort(text); err == nil && false {"},
		// A closed connection counts toward the limits on connections until the client has received all data or a time limit
		// has passed.
		{"closed-connections", "web/httpserver/conn.go",
			"if unsent := c.unsent(); unsent != nil {",
			"if unsent := c.unsent(); false {"},
		// If a server cannot accept a connection, it logs a warning.
		{"accept-warning", "web/httpserver/error_log.go",
			`case strings.HasPrefix(r.Message, "http: Accept error"):`,
			"case false:"},
		// The header of a request has a limited number of lines, because each line takes memory.
		{"header-lines", "web/httpserver/header_lines.go",
			"maxHeaderLines = 100",
			"maxHeaderLines = 10_000"},
		// A client has a limited time to send its request.
		{"slow-client", "web/httpserver/httpserver.go",
			"ReadHeaderTimeout: 5 * time.Second,\n\t\tReadTimeout:       10 * time.Second,\n",
			""},
		// A server that cannot complete an answer closes the connection. Therefore the client notices that the answer is
		// not complete.
		{"whole-answer", "web/internal/problem/writer.go",
			"\t\tabort(c)\n",
			"\t\treturn\n"},
		// Many requests of one client for QR codes do not delay the requests of other clients.
		{"qr-share", "web/internal/qr/drawer.go",
			"d.turns.Begin(ctx, client, drawPatience)",
			"d.turns.Begin(ctx, netip.Prefix{}, drawPatience)"},
	}
}
