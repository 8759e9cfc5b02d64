package server

import (
	"fmt"
	"log/slog"

	"keypool/cmd/internal/blockfile"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/shortener"
)

// ownHosts returns the set of the hosts in OWN_HOSTS, which Complete has checked. It is nil if there are none.
func ownHosts(names config.OwnHosts) *shortener.Hosts {
	if len(names) == 0 {
		return nil
	}
	hosts := &shortener.Hosts{}
	for _, name := range names {
		if !hosts.Add(name) {
			panic("server: OWN_HOSTS has an invalid host")
		}
	}
	return hosts
}

// watchBlockFile makes service use the block list in a file, and each change of it, until p stops. It does nothing
// if path is empty. It returns a [*config.Error] if the file has no valid list.
func watchBlockFile(p *program.Program, path string, service *shortener.Service, log *slog.Logger) error {
	if path == "" {
		return nil
	}
	file, err := blockfile.Open(path, log, service.Block)
	if err != nil {
		return &config.Error{Name: "BLOCK_HOSTS_FILE", Got: path, Takes: fmt.Sprintf("a file with one host per line: %v", err)}
	}
	p.Background("block list", p.Fail, file.Run)
	return nil
}
