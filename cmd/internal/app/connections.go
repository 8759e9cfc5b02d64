package app

import (
	"net/http"
	"net/netip"
	"slices"
	"syscall"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/web/httpserver"
)

const (
	// defaultConnections is the default of MAX_CONNECTIONS if the memory limit and the limit of open files permit it.
	defaultConnections = 10_000
	// ConnectionMemory is the memory, in bytes, that the default of MAX_CONNECTIONS assumes for an HTTP/1 connection.
	// A connection takes up to 40 KiB of the memory that GOMEMLIMIT limits: its goroutine, its two buffers, a header or a body
	// that has arrived in part, and an answer that the client does not read. It also takes up to program.SocketMemory in the
	// kernel, which GOMEMLIMIT does not limit. If every client sends requests and reads no answer, the buffers in the kernel
	// for the default number of connections take at most 62.5 % of GOMEMLIMIT.
	ConnectionMemory = 64 << 10
	// http2Memory is the memory, in bytes, that the default of MAX_CONNECTIONS assumes for an HTTP/2 connection of the key
	// service: program.SocketMemory and 512 KiB. The 512 KiB are for the buffers of the connection, and for maxStreams
	// requests in progress. Each request takes about 28 KiB, because its header may have many fields.
	http2Memory = program.SocketMemory + 512<<10
	// maxKeyHeader is the limit of the header of a request to the key service, in bytes. A token has at most 514
	// characters.
	maxKeyHeader = 4 << 10
	// maxStreams is the number of requests that an HTTP/2 connection may have in progress.
	maxStreams = 16
	// connectionShare is the part of the memory limit that connections may use.
	connectionShare = 0.25
)

// keyStreams returns limits for the HTTP/2 connections of the key service. Without these limits, a connection may have
// 250 requests in progress, and 1 MiB of bodies that were not read.
func keyStreams() *http.HTTP2Config {
	const least = 64 << 10 // HTTP/2 permits no smaller window for a connection
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: least, MaxReceiveBufferPerStream: least,
	}
}

// LimitConnections limits the number of open connections of the public listener of a server or key service. The parameter
// memory is the memory of one connection, in bytes. The limit for each address does not apply to proxies. LimitConnections
// must be called once, before p.ServePublic.
func (c *Core) LimitConnections(p *program.Program, proxies config.Networks, memory float64) {
	total, perAddress := connectionLimits(c.Common, memory)
	connections := httpserver.NewConnections(httpserver.ConnectionLimits{
		Total: total, PerClient: perAddress,
		Client: func(addr netip.Addr) (netip.Prefix, bool) { return connectionClient(c.Common, proxies, addr) },
	}, c.Registry, c.Log)
	p.LimitPublic(connections.Limit)
}

// connectionLimits returns MAX_CONNECTIONS and MAX_CONNECTIONS_PER_ADDRESS with their defaults.
func connectionLimits(s config.Common, memory float64) (total, perAddress int) {
	if total = s.MaxConnections; total == 0 {
		total = Fitting(connectionShare, memory, defaultConnections)
		if files := openFiles(); files > 0 {
			total = max(1, min(total, files/2))
		}
	}
	if perAddress = s.MaxPerAddress; perAddress == 0 {
		perAddress = max(1, total/2)
	}
	return total, perAddress
}

// openFiles returns how many files this process may open, or 0 if this is unknown.
func openFiles() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return int(min(files.Cur, 1<<30))
}

// connectionClient returns the client to which a connection from addr belongs, and whether the limit for each address
// applies to this client. For a proxy, limited is false, because the connections of a proxy belong to many clients. A
// loopback address may be the address of a proxy on this machine. For a loopback address, limited is true only if the
// operator has set MAX_CONNECTIONS_PER_ADDRESS.
func connectionClient(s config.Common, proxies config.Networks, addr netip.Addr) (_ netip.Prefix, limited bool) {
	addr = addr.Unmap().WithZone("")
	isProxy := slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
	return httpserver.ClientOf(addr), !isProxy && (s.MaxPerAddress > 0 || !addr.IsLoopback())
}
