package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"keypool/kgs/keysource"
)

// openSnowflake: the clock, and a machine id that is leased from the database.
func (ch *chain) openSnowflake(ctx context.Context) error {
	machines := ch.machineIDs()
	ch.life.onStop("machine ids", func(ctx context.Context) error { return waitFor(ctx, machines.Close) })
	snowflake := keysource.NewSnowflake(keysource.SnowflakeConfig{
		Machines: machines, Holder: ch.holder, Machine: ch.settings.MachineID, Logger: ch.log,
	})
	err := snowflake.Open(ctx)
	if errors.Is(err, keysource.ErrMachineTaken) {
		return &SettingError{
			Name: "MACHINE_ID", Got: strconv.Itoa(ch.settings.MachineID),
			Takes: fmt.Sprintf("the id of no other process that runs (%v)", err),
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
func (ch *chain) machineIDs() *keysource.MachineIDs {
	if ch.books != nil {
		return keysource.NewPostgresMachineIDs(ch.books)
	}
	return keysource.NewSQLiteMachineIDs(ch.file)
}
