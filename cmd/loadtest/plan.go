package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"keypool/cmd/internal/config"
	"keypool/loadtest/plan"
	"keypool/loadtest/report"
)

// numberFlag is the value of a flag that is a number. The tags min and max of the flag give the bounds. With the
// tag whole, the number must be whole.
type numberFlag float64

// durationFlag is the value of a flag that is a duration from 0 to maxDuration.
type durationFlag time.Duration

const maxDuration = 365 * 24 * time.Hour

// planFlags describe a deployment. The bounds of the flags prevent an overflow of the figures of a
// plan.
type planFlags struct {
	Creations  numberFlag   `default:"1000" min:"0.001" max:"10000000" placeholder:"N" help:"Average creations per second."`
	Years      numberFlag   `default:"10" min:"1" max:"100" whole:"" placeholder:"N" help:"Years of the plan."`
	Servers    numberFlag   `default:"20" min:"1" max:"1000000" whole:"" placeholder:"N" help:"Servers that share the load."`
	Outage     durationFlag `default:"5m" placeholder:"D" help:"Duration of an outage of Redis, or of the worker, that keys must bridge."`
	Redirects  numberFlag   `default:"100000" min:"0" max:"1000000000" placeholder:"N" help:"Average redirects per second."`
	Capacity   numberFlag   `default:"100000000" min:"100" max:"10000000000" whole:"" placeholder:"N" help:"Keys in a full pool."`
	CodeLength numberFlag   `default:"6" min:"3" max:"10" whole:"" placeholder:"N" help:"Characters in the first codes."`
	Night      durationFlag `default:"8h" placeholder:"D" help:"Wanted time between the signal page and the empty pool."`
	Zipf       numberFlag   `default:"0.6" min:"0" max:"3" placeholder:"S" help:"Zipf exponent of the popularity of links. Published exponents of web traffic are from 0.6 to 1.03."`
	printed
}

// Run prints the plan.
func (c *planFlags) Run(out output) error {
	if err := checkPage(c.Page); err != nil {
		return err
	}
	p := plan.Make(plan.Input{
		Creations: float64(c.Creations), Years: int(c.Years), Servers: int64(c.Servers), Outage: time.Duration(c.Outage).Seconds(),
		Redirects: float64(c.Redirects), Capacity: int64(c.Capacity), CodeLength: int(c.CodeLength),
		Night: time.Duration(c.Night).Seconds(), Zipf: float64(c.Zipf),
	})
	return c.print(out, p)
}

// printed has the flags of a command that prints a plan or a simulation instead of the report of a run.
type printed struct {
	JSON bool   `help:"Print the result as JSON."`
	Page string `placeholder:"FILE" help:"Also write the result with charts to this file, as HTML."`
}

// print prints the result and writes the page.
func (c *printed) print(out output, result report.Printable) (err error) {
	if c.JSON {
		err = report.WriteIndented(out.stdout, result)
	} else {
		err = result.WriteText(out.stdout)
	}
	if c.Page != "" {
		err = errors.Join(err, writeFile(c.Page, func(f *os.File) error { return result.HTML(f) }))
	}
	return err
}

// checkPage returns an error that names the flag --page if page is a folder or is in a folder that does not exist.
func checkPage(page string) error {
	if page == "" {
		return nil
	}
	refused := &config.Error{Name: "--page", Got: page, Takes: "a file in a folder that exists"}
	if folder, err := os.Stat(filepath.Dir(page)); err != nil || !folder.IsDir() {
		return refused
	}
	if file, err := os.Stat(page); err == nil && file.IsDir() {
		return refused
	}
	return nil
}

// planMappers returns the decoders of the types numberFlag and durationFlag. A decoder returns a [*config.Error] for an
// invalid value.
func planMappers() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[numberFlag](), kong.MapperFunc(decodeNumber)),
		kong.TypeMapper(reflect.TypeFor[durationFlag](), kong.MapperFunc(decodeDuration)),
	}
}

func decodeNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	tag := ctx.Value.Tag
	lo, errLo := strconv.ParseFloat(tag.Get("min"), 64)
	hi, errHi := strconv.ParseFloat(tag.Get("max"), 64)
	if err := errors.Join(errLo, errHi); err != nil {
		panic(fmt.Sprintf("the bounds of --%s: %v", ctx.Value.Name, err))
	}
	kind := "number"
	if tag.Has("whole") {
		kind = "whole number"
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= lo && v <= hi) || tag.Has("whole") && v != math.Trunc(v) { // NaN is not in the interval
		return &config.Error{Name: "--" + ctx.Value.Name, Got: text, Takes: fmt.Sprintf("a %s from %s to %s", kind, tag.Get("min"), tag.Get("max"))}
	}
	target.SetFloat(v)
	return nil
}

func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxDuration {
		return &config.Error{Name: "--" + ctx.Value.Name, Got: text, Takes: fmt.Sprintf("a duration from 0s to %.0fh, such as 90s or 8h", maxDuration.Hours())}
	}
	target.SetInt(int64(d))
	return nil
}
