package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"keypool/internal/testenv/machine"
)

// needs lists the programs, besides Go, that tests and checks run. A program counts as installed if
// a file with one of its names is found.
var needs = map[string]struct{ names, packages []string }{
	"gcc":             {names: []string{"gcc", "clang"}, packages: []string{"gcc", "libc6-dev"}}, // the race detector needs it
	"redis-server":    {names: []string{"redis-server"}, packages: []string{"redis-server"}},
	"postgres":        {names: []string{"postgres"}, packages: []string{"postgresql"}},
	"pgbouncer":       {names: []string{"pgbouncer"}, packages: []string{"pgbouncer"}},
	"chromium":        {names: []string{"chromium", "chromium-browser", "google-chrome"}, packages: []string{"chromium"}},
	"promtool":        {names: []string{"promtool"}, packages: []string{"prometheus"}},
	"spin":            {names: []string{"spin"}, packages: []string{"spin"}},
	"wrk":             {names: []string{"wrk"}, packages: []string{"wrk"}},
	"python3":         {names: []string{"python3"}, packages: []string{"python3"}},
	"fincore":         {names: []string{"fincore"}, packages: []string{"util-linux-extra"}},
	"nginx":           {names: []string{"nginx"}, packages: []string{"nginx-light"}},
	"iptables":        {names: []string{"iptables"}, packages: []string{"iptables"}},
	"docker-compose":  {names: []string{"docker-compose"}, packages: []string{"docker-compose"}},
	"zbarimg":         {names: []string{"zbarimg"}, packages: []string{"zbar-tools"}},
	"systemd-analyze": {names: []string{"systemd-analyze"}, packages: []string{"systemd"}},
}

// citus is an extension of PostgreSQL. It is not a program, and no package of Debian contains it.
const citus = "citus"

// need installs the listed programs that are missing.
func need(ctx context.Context, log *slog.Logger, programs []string) error {
	var packages []string
	for _, program := range programs {
		if program == citus {
			continue
		}
		n, known := needs[program]
		if !known {
			return fmt.Errorf("cannot install %s; the programs that can be installed are %q", program, slices.Sorted(maps.Keys(needs)))
		}
		if !slices.ContainsFunc(n.names, installed) {
			log.Info("program is missing, installing its package", "program", program, "packages", n.packages)
			packages = append(packages, n.packages...)
		}
	}
	if len(packages) > 0 {
		if err := machine.Install(ctx, packages...); err != nil {
			return err
		}
	}
	if _, err := machine.FindCitus(); err == nil || !slices.Contains(programs, citus) {
		return nil
	}
	log.Info("Citus is missing, copying it from its image")
	return machine.InstallCitus(ctx)
}

func installed(program string) bool {
	_, err := machine.LookPath(program)
	return err == nil
}
