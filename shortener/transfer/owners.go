package transfer

import (
	"fmt"

	"keypool/shortener"
	"keypool/shortener/token"
)

// Owners translate between the ids of tokens in the database and their names in files. They are immutable.
type Owners struct {
	names map[int64]string
	ids   map[string]int64
}

// NewOwners returns the owners for all tokens. The tokens must be in the order of their creation. If
// several tokens have the same name, an import uses the token that is not revoked. If all these tokens
// are revoked, the import uses the newest token.
func NewOwners(tokens []token.Token) *Owners {
	o := &Owners{names: make(map[int64]string), ids: make(map[string]int64)}
	valid := make(map[string]bool)
	for i := range tokens {
		t := &tokens[i]
		o.names[t.ID] = t.Name
		if t.RevokedAt.IsZero() || !valid[t.Name] {
			o.ids[t.Name], valid[t.Name] = t.ID, t.RevokedAt.IsZero()
		}
	}
	return o
}

func (o *Owners) name(id int64) string { return o.names[id] }

// id returns the id of the token with this name. The name "" is the owner of an anonymous link, and its id is 0.
func (o *Owners) id(name string) (int64, error) {
	id, ok := o.ids[name]
	if ok || name == "" {
		return id, nil
	}
	if err := token.CheckName(name); err != nil {
		return 0, &shortener.InvalidError{Field: "owner", Reason: "must be the name of a token, which has 1 to 64 printable characters"}
	}
	return 0, &shortener.InvalidError{
		Field:  "owner",
		Reason: fmt.Sprintf("must be the name of a token, and no token is named %q; run `shortener token create` with this --name", name),
	}
}
