package main

import (
	"context"

	"keypool/loadtest/measure"
)

type baselineFlags struct {
	Listen string `required:"" help:"Address to listen on."`
}

// Run serves the bare handlers until ctx ends.
func (c *baselineFlags) Run(ctx context.Context) error { return measure.ServeBare(ctx, c.Listen) }
