package server

import (
	"context"
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
	Code string `arg:"" name:"code" help:"The code to explain."`
	JSON bool   `name:"json" help:"Print the explanation as JSON."`
}

// explainCode prints where a code came from. It reads the database and changes nothing.
func explainCode(ctx context.Context, s config.Server, f explainFlags, out io.Writer) error {
	if !shortener.IsCode(f.Code) {
		return &config.Error{Name: "CODE", Got: f.Code, Takes: "the letters A-Z and a-z, digits, _ and -"}
	}
	return offline(ctx, s, io.Discard, func(ctx context.Context, o opened) error {
		link, err := explainedLink(ctx, o.store, f.Code)
		if err != nil {
			return fmt.Errorf("explain %q: %w", f.Code, err)
		}
		x, err := o.core.Explain(ctx, f.Code, link)
		if err != nil {
			return fmt.Errorf("explain %q: %w", f.Code, err)
		}
		return operate.PrintExplanation(out, x, f.JSON)
	})
}

// explainedLink returns the link of a code, or nil if there is none.
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
