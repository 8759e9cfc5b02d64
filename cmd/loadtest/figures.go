package main

import (
	"context"

	"keypool/loadtest/controls"
	"keypool/loadtest/figures"
)

type figuresFlags struct{}

// Run prints the text of docs/figures.md. The working directory must be in the source tree, because Run counts the lines
// of code in the source tree.
func (figuresFlags) Run(ctx context.Context, out output) error {
	root, err := controls.ModuleRoot(ctx)
	if err != nil {
		return err
	}
	return figures.Write(out.stdout, root)
}
