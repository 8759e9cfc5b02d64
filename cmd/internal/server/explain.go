package server

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"time"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/kgs/explain"
	"keypool/shortener"
	"keypool/shortener/token"
)

// explainFlags are the flags of the command explain.
type explainFlags struct {
	Code explainedCode `arg:"" name:"code" help:"The code to explain."`
	JSON bool          `name:"json" help:"Print the explanation as JSON."`
}

// explainedCode is a string that can be the code of a link.
type explainedCode string

var _ encoding.TextUnmarshaler = (*explainedCode)(nil)

// UnmarshalText refuses a text that cannot be the code of a link.
func (c *explainedCode) UnmarshalText(text []byte) error {
	if !shortener.IsCode(string(text)) {
		return fmt.Errorf("%q cannot be a code: a code has 1 to 64 characters, which are letters A-Z and a-z, digits, _ and -", text)
	}
	*c = explainedCode(text)
	return nil
}

// explainCode prints where a code came from. It reads the database and changes nothing.
func explainCode(ctx context.Context, s config.Server, f explainFlags, out io.Writer) error {
	code := string(f.Code)
	return offline(ctx, s, io.Discard, func(ctx context.Context, o opened) error {
		link, err := explainedLink(ctx, o.store, code)
		if err != nil {
			return fmt.Errorf("explain %q: %w", code, err)
		}
		x, err := o.core.Explain(ctx, code, link)
		if err != nil {
			return fmt.Errorf("explain %q: %w", code, err)
		}
		return operate.PrintExplanation(out, x, f.JSON)
	})
}

// explainedLink returns the link of a code, or nil if no link has the code.
func explainedLink(ctx context.Context, store shortener.Store, code string) (*explain.Link, error) {
	l, err := store.Lookup(ctx, code)
	if errors.Is(err, shortener.ErrNotFound) {
		return nil, nil //nolint:nilnil // no link
	}
	if err != nil {
		return nil, err
	}
	x := &explain.Link{
		URL: l.URL, State: "live", Source: l.Source, Editable: l.Editable(), Version: l.Version(),
		CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, DeletedAt: l.DeletedAt,
	}
	switch {
	case !l.DeletedAt.IsZero():
		x.State = "deleted"
	case l.Gone(time.Now()):
		x.State = "expired"
	}
	if owner := l.Owner(); owner != 0 {
		x.Owner = token.FormatID(owner)
	}
	return x, nil
}
