package main

import (
	"errors"
	"fmt"
	"os"

	"keypool/loadtest/report"
)

type compareFlags struct {
	A string `arg:"" help:"The report.json of one run."`
	B string `arg:"" help:"The report.json of another run."`
}

// Run prints the comparison. A verdict that differs is a result and not a failure.
func (c *compareFlags) Run(out output) error {
	a, errA := readReport(c.A)
	b, errB := readReport(c.B)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	return report.Compare(out.stdout, a, b)
}

func readReport(path string) (*report.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written to it
	r, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
