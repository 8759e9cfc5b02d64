package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keyserver"
	"keypool/kgs/keysource"
	"keypool/kgs/pgpool"
	"keypool/kgs/refill"
)

// openPostgresPool opens the key source postgres-pool: a worker, a pool in tables of the database of
// the links, and a local batch. This key source has no breaker, because without the database the
// server cannot store links either.
func (ch *Chain) openPostgresPool(context.Context) error {
	pool := pgpool.New(ch.ledgerDB, pgpool.Config{Holder: ch.holder, Reserve: ch.settings.KGSTake == "reserve"})
	build := func() refill.Runner { return ch.worker(ch.drawingFiller(pool)) }
	ch.watch = ch.watchPool(ch.fail, watched{look: ch.byCreations(observe(pool.Status)), build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}

// drawingFiller returns a filler of a pool in tables. The filler draws random codes. If fewer than half
// of the codes that one Fill drew were new, all later codes have one more character; see [pgpool.Filler].
func (c *Core) drawingFiller(pool *pgpool.Pool) *pgpool.Filler {
	length := c.CodeLength
	filler := pgpool.NewFiller(pool, keysource.Random{Length: func() int { return length }}, c.Log)
	filler.Crowded = func() {
		if length < codespace.MaxLength {
			length++
			c.Log.Info("about half of the codes of the previous length are used or in the pool: the pool gets longer codes", slog.Int("length", length))
		}
	}
	return filler
}

// openRemote opens the key source kgs: the key service at KGS_URL, a breaker and a local batch.
func (ch *Chain) openRemote(context.Context) error {
	supply, err := keyserver.NewRemoteSupply(string(ch.settings.KGSURL))
	if err != nil {
		return &config.Error{Name: "KGS_URL", Got: config.Redacted(string(ch.settings.KGSURL)), Takes: config.TakesKGSURL}
	}
	ch.life.OnStop("key service", ch.returnKeys(supply.Close))
	breaker := kgs.NewBreaker(supply, "key service", ch.Log)
	ch.breaker, ch.remote = breaker, supply
	ch.openLocal(breaker)
	return nil
}

// openRedisIncr opens the key source redis-incr: a counter in Redis and a breaker. Redis may be
// unreachable during the start.
func (ch *Chain) openRedisIncr(ctx context.Context) error {
	client, err := ch.openRedis()
	if err != nil {
		return err
	}
	if err := ch.refuseRole(ctx, client); err != nil {
		return err
	}
	incr := keysource.NewRedisIncr(client, string(ch.Prefix), ch.ledger.Name(), ch.CodeLength, ch.Log)
	ch.breaker = incr
	ch.openKeys(incr)
	return nil
}

// openSnowflake opens the key source snowflake. This key source makes codes from the time and a
// machine id, which the database reserves for this process.
func (ch *Chain) openSnowflake(ctx context.Context) error {
	machines := ch.machineIDs()
	ch.life.OnStop("machine ids", func(ctx context.Context) error { return program.WaitFor(ctx, machines.Close) })
	snowflake := keysource.NewSnowflake(keysource.SnowflakeConfig{
		Machines: machines, Holder: ch.holder, Machine: ch.settings.MachineID.ID(), Logger: ch.Log,
	})
	err := snowflake.Open(ctx)
	if errors.Is(err, keysource.ErrMachineTaken) {
		return &config.Error{
			Name: "MACHINE_ID", Got: strconv.Itoa(ch.settings.MachineID.ID()),
			Takes: fmt.Sprintf("an id that no other running process has (%v)", err),
		}
	}
	if err != nil {
		return err
	}
	ch.life.Background("machine id", ch.fail, snowflake.Run)
	ch.openKeys(snowflake)
	return nil
}

// machineIDs returns the reservations of machine ids in the database of the links.
func (c *Core) machineIDs() *keysource.MachineIDs {
	if c.ledgerDB != nil {
		return keysource.NewPostgresMachineIDs(c.ledgerDB)
	}
	return keysource.NewSQLiteMachineIDs(c.SQLite)
}
