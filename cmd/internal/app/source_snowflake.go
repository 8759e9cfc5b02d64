package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"keypool/cmd/internal/config"
	"keypool/kgs"
)

// openSnowflake: the clock, and a machine id that the database reserves for this process.
func (ch *chain) openSnowflake(ctx context.Context) error {
	snowflake := kgs.NewSnowflake(kgs.SnowflakeConfig{
		Ledger: ch.ledger, Holder: ch.holder, Machine: ch.settings.MachineID.ID(), Logger: ch.log,
	})
	err := snowflake.Open(ctx)
	if errors.Is(err, kgs.ErrMachineTaken) {
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
