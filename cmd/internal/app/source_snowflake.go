package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"keypool/cmd/internal/config"
	"keypool/kgs/keysource"
)

// openSnowflake: the clock, and a machine id that the database reserves for this process.
func (ch *Chain) openSnowflake(ctx context.Context) error {
	machines := ch.machineIDs()
	ch.life.onStop("machine ids", func(ctx context.Context) error { return WaitFor(ctx, machines.Close) })
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
	ch.life.background("machine id", ch.fail, snowflake.Run)
	ch.openKeys(snowflake)
	return nil
}

// machineIDs are those of the database of the links.
func (ch *Chain) machineIDs() *keysource.MachineIDs {
	if ch.ledgerDB != nil {
		return keysource.NewPostgresMachineIDs(ch.ledgerDB)
	}
	return keysource.NewSQLiteMachineIDs(ch.SQLite)
}
