//go:build drill

package sources

import (
	"context"
	"crypto/rand"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/testbed"
)

// source is one way to get codes, as an operator sets it and a client sees it.
type source struct {
	name     string   // of its test
	settings []string // that choose it
	label    string   // of its keys in kgs_keys_taken_total
	code     string   // what its codes match from end to end
	// on starts what it draws on besides the database of links, nil for nothing. While
	// that is dead creations go on by the fallback, or are refused where there is none, once
	// the local keys are used up. While the database is dead they are refused either way.
	on func(context.Context, *stand) error
}

// The codes of the schemes that count or draw by chance, with the default CODE_LENGTH.
const sixOfBase62 = `[0-9A-Za-z]{6}`

// table is every source. A new one is entered here, and that is all that the suite takes.
func table() []source {
	return []source{
		{"redis-pool", []string{"KEY_SOURCE=redis-pool"}, "pool", sixOfBase62, onRedis},
		{"memory-pool", []string{"KEY_SOURCE=memory-pool"}, "pool", sixOfBase62, nil},
		{"ledger", []string{"KEY_SOURCE=ledger"}, "ledger", sixOfBase62, nil},
		{"ledger in order", []string{"KEY_SOURCE=ledger", "KGS_PERMUTE=false"}, "ledger", sixOfBase62, nil},
		{"postgres-pool", []string{"KEY_SOURCE=postgres-pool", "KGS_TAKE=delete"}, "postgres-pool", sixOfBase62, nil},
		{"postgres-pool reserving", []string{"KEY_SOURCE=postgres-pool", "KGS_TAKE=reserve"}, "postgres-pool", sixOfBase62, nil},
		{"redis-incr", []string{"KEY_SOURCE=redis-incr"}, "redis-incr", sixOfBase62, onRedis},
		{"ticket", []string{"KEY_SOURCE=ticket"}, "ticket", sixOfBase62, onTickets},
		{"snowflake", []string{"KEY_SOURCE=snowflake"}, "snowflake", `[0-9A-Za-z]{11}`, nil},
		{"hash md5", []string{"KEY_SOURCE=hash", "HASH_ALGORITHM=md5"}, "hash", `[0-9A-Za-z_-]{6}`, nil},
		{"hash sha256", []string{"KEY_SOURCE=hash", "HASH_ALGORITHM=sha256"}, "hash", `[0-9A-Za-z_-]{6}`, nil},
		{"uuid", []string{"KEY_SOURCE=uuid"}, "uuid", `[0-9A-Za-z]{22}`, nil},
		{"random", []string{"KEY_SOURCE=random"}, "random", sixOfBase62, nil},
		{"kgs", []string{"KEY_SOURCE=kgs"}, "kgs", sixOfBase62, onKGS},
	}
}

// onRedis gives the servers a Redis that keeps nothing on disk: killed, it loses all it had.
func onRedis(ctx context.Context, st *stand) error {
	redis, err := st.bed.Redis(ctx)
	if err != nil {
		return err
	}
	st.draws = []*testbed.Server{redis}
	st.settings = append(st.settings, "REDIS_URL="+redis.URL)
	return nil
}

// onTickets gives them two PostgreSQLs, apart from that of the links.
func onTickets(ctx context.Context, st *stand) error {
	for range 2 {
		tickets, err := st.bed.Postgres(ctx)
		if err != nil {
			return err
		}
		st.draws = append(st.draws, tickets)
	}
	st.settings = append(st.settings, "TICKET_DATABASE_URLS="+st.draws[0].URL+","+st.draws[1].URL)
	return nil
}

// onKGS gives them a remote KGS with a database of its own.
func onKGS(ctx context.Context, st *stand) error {
	database, err := testbed.CreateDatabase(ctx, st.postgres.URL, "kgs", "")
	if err != nil {
		return err
	}
	listen, err := machine.FreeAddr(ctx)
	if err != nil {
		return err
	}
	token := rand.Text()
	remote, err := st.bed.Worker(ctx, append(sizes(), "DATABASE_URL="+database,
		"KGS_LISTEN_ADDR="+listen, "KGS_TOKENS=shortener="+token)...)
	if err != nil {
		return err
	}
	st.draws, st.workers = []*testbed.Server{remote.Server}, []*testbed.Program{remote}
	st.settings = append(st.settings, "KGS_URL=http://shortener:"+token+"@"+listen)
	return nil
}
