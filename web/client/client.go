// Package client determines the client that sends a request, by the address and the token, and limits how much each client
// may do.
//
// Vocabulary:
//
//   - A miss is a request for an unknown code, a creation with an alias that belongs to another link, or a failed sign-in.
//   - A creation is anonymous if it has no token.
//   - The origin is the scheme, host and port under which a client reaches this service.
//
// Invariants:
//
//   - forwarding headers are used only if the peer is a trusted proxy;
//   - the memory for the limits has a maximum that does not depend on the number of clients.
package client
