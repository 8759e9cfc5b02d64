package testbed

import (
	"context"
	"os"

	"keypool/internal/testenv/machine"
)

// Other starts a program that is not told how to run here, in a directory of its own.
func (b *Bed) Other(ctx context.Context, p machine.Program) (*machine.Server, error) {
	var err error
	if p.Dir, err = os.MkdirTemp(b.dir, "other-"); err != nil {
		return nil, err
	}
	return owned(b)(p.Start(ctx))
}
