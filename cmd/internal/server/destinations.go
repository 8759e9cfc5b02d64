package server

import (
	"context"
	"fmt"
	"log/slog"

	"keypool/cmd/internal/blockfile"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/shortener/destination"
	"keypool/shortener/service"
)

// ownHosts returns the set of the hosts in OWN_HOSTS, which Complete has checked. The result is nil if
// OWN_HOSTS is empty.
func ownHosts(names config.OwnHosts) *destination.Hosts {
	if len(names) == 0 {
		return nil
	}
	hosts := &destination.Hosts{}
	for _, name := range names {
		if !hosts.Add(name) {
			panic("server: OWN_HOSTS has an invalid host")
		}
	}
	return hosts
}

// openBlockFile reads the block list in a file. It returns nil if path is empty, and a [*config.Error] if the file has
// no valid list.
func openBlockFile(path string, log *slog.Logger) (*blockfile.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := blockfile.Open(path, log)
	if err != nil {
		return nil, &config.Error{Name: "BLOCK_HOSTS_FILE", Got: path, Takes: fmt.Sprintf("a file with one host per line: %v", err)}
	}
	return file, nil
}

// watchBlockFile makes links use the block list in file, and the new list after each change of the file, until p stops. If
// file is nil, watchBlockFile does nothing.
func watchBlockFile(p *program.Program, file *blockfile.File, links *service.Service) {
	if file == nil {
		return
	}
	links.Block(file.List())
	p.Background("block list", p.Fail, func(ctx context.Context) error { return file.Run(ctx, links.Block) })
}
