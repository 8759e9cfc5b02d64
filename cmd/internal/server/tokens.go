package server

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/upkeep"
	"keypool/kgs"
	"keypool/shortener/token"
)

// openTokens opens the registry of the tokens, and keeps it up to date until p stops.
func openTokens(ctx context.Context, p *program.Program, c *app.Core, reading, writing *pgxpool.Pool) (*token.Registry, error) {
	polls, records := kgs.NewFailureLog(c.Log, "read the tokens"), kgs.NewFailureLog(c.Log, "record the uses of tokens")
	registry, err := token.NewRegistry(ctx, tokenStore(c, reading, writing), token.Notes{Poll: polls.Note, Record: records.Note}, nil)
	if err != nil {
		return nil, err
	}
	c.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shortener_tokens_read_timestamp_seconds",
		Help: "Unix time; this server knows every revocation and renewal of a token that happened before this time.",
	}, func() float64 { return float64(registry.Current().UnixMilli()) / 1000 }))
	p.Background("tokens", p.Fail, registry.Run)
	return registry, nil
}

// tokenStore returns the store of the tokens in the database of c.
func tokenStore(c *app.Core, reading, writing *pgxpool.Pool) token.Store {
	if c.SQLite != nil {
		return token.SQLite(c.SQLite.Read, c.SQLite.Write)
	}
	read, write := stdlib.OpenDBFromPool(reading), stdlib.OpenDBFromPool(writing)
	c.OnStop("tokens", func(context.Context) error { return errors.Join(read.Close(), write.Close()) })
	return token.Postgres(read, write)
}

// tokenTimeout limits the time of a command for tokens. The start of the program does not count.
const tokenTimeout = 10 * time.Second

// withTokens calls the function do with the store of the tokens, for a command that may run while servers run.
func withTokens(ctx context.Context, s config.Server, do func(context.Context, token.Store) error) error {
	return withCore(ctx, s, io.Discard, func(c *app.Core) error {
		connections, err := openConnections(ctx, c)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		return do(ctx, tokenStore(c, connections, connections))
	})
}

// tokenCommands are the commands that manage tokens.
type tokenCommands struct {
	Create tokenCreation   `cmd:"" help:"Create a token and print it. The token cannot be shown again."`
	List   tokenListing    `cmd:"" help:"List all tokens without their secrets. LAST USED is the beginning of the hour of the last use, so it can be before CREATED."`
	Renew  tokenRenewal    `cmd:"" help:"Give a token a new secret and a new expiry, and print the token, which cannot be shown again. The token keeps its id, name, scopes, rate and links. An expired token can be renewed, but a revoked token cannot. After the output, the command waits for one second. After this second, each server refuses the old secret if it can read the tokens in time. A server that cannot do so logs this, and may accept the old secret for longer."`
	Revoke tokenRevocation `cmd:"" help:"Revoke a token. After the revocation, the command waits for one second. After this second, each server refuses the token if it can read the tokens in time. A server that cannot do so logs this, and may accept the token for longer."`
}

// manageTokens runs one of the tokenCommands.
func manageTokens(ctx context.Context, s config.Server, command string, f tokenCommands, out io.Writer) error {
	switch command {
	case "token create":
		return createToken(ctx, s, f.Create, out)
	case "token renew <id>":
		return renewToken(ctx, s, f.Renew, out)
	case "token revoke <id>":
		return revokeToken(ctx, s, f.Revoke, out)
	case "token list":
		return listTokens(ctx, s, f.List, out)
	}
	return fmt.Errorf("unknown command %q", command)
}

// tokenCreation holds the flags of `token create`.
type tokenCreation struct {
	Name    tokenName    `required:"" placeholder:"NAME" help:"Name of the token, 1 to 64 characters. It must differ from the names of all tokens that are not revoked."`
	Scope   token.Scopes `required:"" placeholder:"SCOPE,..." help:"What the token permits: create (links), read and edit (its own links), admin (all of these, on all links). Separate scopes by commas."`
	Rate    config.Rate  `default:"100/s" help:"Number of links that the token may create per second on each server. A burst may have ten times as many. The value off removes the limit."`
	Expires config.Age   `placeholder:"DURATION" help:"Time until the token expires, such as 720h. Default: never."`
}

// tokenName is the name of a token.
type tokenName string

var _ kong.MapperValue = (*tokenName)(nil)

// Decode takes a name that [token.CheckName] accepts. The type has no method UnmarshalText, because kong replaces bytes
// that are not UTF-8 before it calls UnmarshalText.
func (n *tokenName) Decode(ctx *kong.DecodeContext) error {
	text, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	*n = tokenName(text.String())
	return token.CheckName(string(*n))
}

// createToken creates a token and prints its bearer, which is the text that a client sends.
func createToken(ctx context.Context, s config.Server, f tokenCreation, out io.Writer) error {
	return withTokens(ctx, s, func(ctx context.Context, tokens token.Store) error {
		wanted := token.Token{Name: string(f.Name), Scopes: f.Scope, Rate: f.Rate.Rate, CreatedAt: time.Now()}
		wanted.ExpiresAt = expiry(wanted.CreatedAt, f.Expires)
		created, bearer, err := tokens.Create(ctx, wanted)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, bearer); err != nil {
			return fmt.Errorf("the token %s is valid, but cannot be printed, and cannot be shown again: revoke it: %w", token.FormatID(created.ID), err)
		}
		return nil
	})
}

// expiry returns the time at which a token expires, or the zero time if the token never expires.
func expiry(from time.Time, age config.Age) time.Time {
	if age == 0 {
		return time.Time{}
	}
	return from.Add(time.Duration(age))
}

// tokenListing holds the flags of `token list`.
type tokenListing struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// listedToken is a token as JSON.
type listedToken struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Scopes     []string  `json:"scopes"`
	Rate       string    `json:"rate"`
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
}

// listTokens prints all tokens.
func listTokens(ctx context.Context, s config.Server, f tokenListing, out io.Writer) error {
	return withTokens(ctx, s, func(ctx context.Context, tokens token.Store) error {
		all, err := tokens.List(ctx)
		if err != nil {
			return err
		}
		if f.JSON {
			return printTokensJSON(out, all)
		}
		return printTokens(out, all)
	})
}

func printTokensJSON(out io.Writer, all []token.Token) error {
	listed := make([]listedToken, len(all)) // not nil, so that an empty list is []
	for i := range all {
		t := &all[i]
		listed[i] = listedToken{
			ID: token.FormatID(t.ID), Name: t.Name, Scopes: t.Scopes.Names(), Rate: t.Rate.String(),
			CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, LastUsedAt: t.LastUsedAt,
		}
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(listed)
}

// printTokens prints a table for people.
func printTokens(out io.Writer, all []token.Token) error {
	const gap = 2 // spaces between two columns
	w := tabwriter.NewWriter(out, 0, 0, gap, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAME\tSCOPES\tRATE\tCREATED\tEXPIRES\tREVOKED\tLAST USED") // Flush returns the error of this line and of the next ones
	for i := range all {
		t := &all[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", token.FormatID(t.ID), t.Name, t.Scopes, t.Rate,
			moment(t.CreatedAt), moment(t.ExpiresAt), moment(t.RevokedAt), moment(t.LastUsedAt))
	}
	return w.Flush()
}

// moment formats a time for people, or the zero time as "-".
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// tokenRenewal holds the arguments of `token renew`.
type tokenRenewal struct {
	ID      tokenID    `arg:"" name:"id" help:"Id of the token. See the output of shortener token list."`
	Expires config.Age `placeholder:"DURATION" help:"Time from now until the token expires, such as 720h. Default: never, even if the token has an expiry."`
}

// renewToken gives a token a new secret and prints the new bearer. It then waits for token.Freshness, as revokeToken does. It
// prints the bearer before it waits, so that an interruption of the wait does not lose the bearer.
func renewToken(ctx context.Context, s config.Server, f tokenRenewal, out io.Writer) error {
	id := token.FormatID(int64(f.ID))
	err := withTokens(ctx, s, func(ctx context.Context, tokens token.Store) error {
		bearer, err := tokens.Renew(ctx, int64(f.ID), expiry(time.Now(), f.Expires))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, bearer); err != nil {
			return fmt.Errorf("the token %s has a new secret, but cannot be printed, and cannot be shown again: renew it again: %w", id, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := upkeep.Pause(ctx, token.Freshness); err != nil {
		return fmt.Errorf("the token %s is renewed, but servers may accept its old secret for up to %v: %w", id, token.Freshness, err)
	}
	return nil
}

// tokenRevocation holds the arguments of `token revoke`.
type tokenRevocation struct {
	ID tokenID `arg:"" name:"id" help:"Id of the token. See the output of shortener token list."`
}

// tokenID is the id of a token.
type tokenID int64

var _ encoding.TextUnmarshaler = (*tokenID)(nil)

// UnmarshalText takes an id with or without leading zeros.
func (n *tokenID) UnmarshalText(text []byte) error {
	id, err := token.ParseID(string(text))
	*n = tokenID(id)
	return err
}

// revokeToken revokes a token. It then waits for token.Freshness. After that time, each server refuses the token if the database
// answers the polls of the server in time. The wait does not count towards tokenTimeout, so the revocation itself may take up to
// tokenTimeout.
func revokeToken(ctx context.Context, s config.Server, f tokenRevocation, out io.Writer) error {
	id := token.FormatID(int64(f.ID))
	err := withTokens(ctx, s, func(ctx context.Context, tokens token.Store) error {
		return tokens.Revoke(ctx, int64(f.ID), time.Now())
	})
	if err != nil {
		return err
	}
	if err := upkeep.Pause(ctx, token.Freshness); err != nil {
		return fmt.Errorf("the token %s is revoked, but servers may accept it for up to %v: %w", id, token.Freshness, err)
	}
	_, err = fmt.Fprintf(out, "revoked %s\n", id)
	return err
}
