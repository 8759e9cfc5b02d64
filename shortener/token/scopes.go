package token

import (
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scopes is a set of scopes.
type Scopes uint8

// These are the scopes. The database stores their sum.
const (
	ScopeCreate Scopes = 1 << iota // create links
	ScopeRead                      // read the links that belong to the token
	ScopeEdit                      // change and delete the links that belong to the token
	ScopeAdmin                     // every operation on all links
)

var _ encoding.TextUnmarshaler = (*Scopes)(nil)

// scopeNames returns the names of the scopes in the order of their values.
func scopeNames() []string { return []string{"create", "read", "edit", "admin"} }

// errScopes reports that a text is not a list of scopes.
var errScopes = errors.New("not a list of scopes")

// UnmarshalText parses names of scopes that are separated by commas.
func (s *Scopes) UnmarshalText(text []byte) error {
	*s = 0
	for name := range strings.SplitSeq(string(text), ",") {
		i := slices.Index(scopeNames(), strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("%w: got %q, takes one or more of create, read, edit and admin, separated by commas", errScopes, text)
		}
		*s |= 1 << i
	}
	return nil
}

// Has reports whether the set contains scope. The scope admin implies every other scope.
func (s Scopes) Has(scope Scopes) bool { return s&ScopeAdmin != 0 || s&scope == scope }

// Names returns the names of the scopes in the set.
func (s Scopes) Names() []string {
	var names []string
	for i, name := range scopeNames() {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the text that UnmarshalText parses.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }
