// Package reflection implements the gRPC reflection service of a key server. Programs such as grpcurl use it to list the
// services of the server, and to read their definitions.
//
// Package keyserver does not import this package, because bin/shortener contains package keyserver for the type
// RemoteSupply. The initialisation of the library grpcreflect takes about 15 ms and 3 MiB of memory, even in a program
// that does not use the library.
package reflection

import (
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
)

// Handle adds the handlers of the reflection service, in both of its versions, to mux. They describe the given services.
func Handle(mux *http.ServeMux, services []string, options ...connect.HandlerOption) {
	described := grpcreflect.NewStaticReflector(services...)
	mux.Handle(grpcreflect.NewHandlerV1(described, options...))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(described, options...))
}
