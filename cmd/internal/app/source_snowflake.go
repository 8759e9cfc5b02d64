package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"keypool/kgs"
)

// openSnowflake: the clock, and a machine id that is leased from the database.
func (ch *chain) openSnowflake(ctx context.Context) error {
	machines := ch.machineIDs()
	ch.life.onStop("machine ids", func(ctx context.Context) error { return waitFor(ctx, machines.Close) })
	snowflake := kgs.NewSnowflake(kgs.SnowflakeConfig{
		Machines: machines, Holder: ch.holder, Machine: ch.settings.MachineID, Logger: ch.log,
	})
	err := snowflake.Open(ctx)
	if errors.Is(err, kgs.ErrMachineTaken) {
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
func (ch *chain) machineIDs() *kgs.MachineIDs {
	if ch.books != nil {
		return kgs.NewPostgresMachineIDs(ch.books)
	}
	return kgs.NewSQLiteMachineIDs(ch.file)
}
