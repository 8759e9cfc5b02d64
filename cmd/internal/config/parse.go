package config

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Program holds the texts of --help and --version, and the writers for them.
type Program struct {
	Name        string
	Description string
	Examples    []Example
	Version     string // text that --version prints
	KeySources  []KeySource
	Out, Errors io.Writer
}

// Parse reads args and the environment into flags. flags points to a struct that embeds settings
// and has a field for each command. Parse returns the command, or "" if --help or --version has
// printed its text. Parse does not check the settings against each other. The Complete methods of
// the settings do this.
func (p Program) Parse(flags any, args []string) (command string, err error) {
	done := false
	parser, err := kong.New(flags, kong.Name(p.Name), kong.Description(p.Description+p.examples()),
		kong.Vars{"version": p.Version, "key_sources": names(p.KeySources)},
		kong.Writers(p.Out, p.Errors),
		kong.Exit(func(int) { done = true }), // called after --help and --version; kong continues to parse
		kong.Resolvers(kong.ResolverFunc(fromEnvironment)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoAppDescFormat: true, WrapUpperBound: helpWidth}),
		kong.ValueFormatter(describe), kong.ExplicitGroups(groups()),
		kong.TypeMapper(reflect.TypeFor[slog.Level](), kong.MapperFunc(decodeWord)),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeWord)),
		kong.KindMapper(reflect.Int, kong.MapperFunc(decodeNumber)),
		kong.KindMapper(reflect.Int64, kong.MapperFunc(decodeNumber)),
		textMapper[Address](), textMapper[Age](), textMapper[BaseURL](), textMapper[Clients](), textMapper[Database](), textMapper[DatabasePair](),
		textMapper[Header](), textMapper[HostNames](), textMapper[Interval](), textMapper[KGSURL](), textMapper[Lag](), textMapper[Level](), textMapper[Machine](),
		textMapper[Networks](), textMapper[OwnHosts](),
		textMapper[PageURL](), textMapper[Prefix](), textMapper[Rate](), textMapper[RedisURL](), textMapper[Replicas](),
		textMapper[Retention](), textMapper[Secret](), textMapper[Switch](), textMapper[WebhookURL](),
	)
	if err != nil {
		panic(fmt.Sprintf("config: the tags of %T: %v", flags, err))
	}
	sortByGroup(parser.Model.Flags)
	takeOverEnvironment(parser.Model.Flags)
	context, err := parser.Parse(args)
	if done {
		return "", nil
	}
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return "", refused // without kong's prefix, because the error itself names the flag
	}
	if err != nil {
		return "", fmt.Errorf("%w; see %s --help", err, p.Name)
	}
	return context.Command(), nil
}

// takeOverEnvironment prevents kong from reading the environment, because fromEnvironment reads it.
// Kong would refuse an invalid variable even if a flag overrides it, and would quote the value of
// the variable, which may be secret.
func takeOverEnvironment(flags []*kong.Flag) {
	for _, flag := range flags {
		flag.Tag.Envs = nil // flag.Envs still names the variable
	}
}

// fromEnvironment returns the value of a flag that the command line does not set. If
// fromEnvironment returns nil, the flag keeps its default.
func fromEnvironment(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if len(flag.Envs) == 0 {
		return nil, nil
	}
	if text, ok := os.LookupEnv(flag.Envs[0]); ok {
		return text, nil
	}
	return nil, nil
}

// textMapper decodes settings of type T with their method UnmarshalText.
func textMapper[T any, P interface {
	*T
	encoding.TextUnmarshaler
}]() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		return decode(ctx, target, func(text string) error {
			return P(target.Addr().Interface().(*T)).UnmarshalText([]byte(text))
		})
	}))
}

// decodeWord decodes a string or a log level. If the setting has the tag oneof, the text must be
// one of the words in the tag.
func decodeWord(ctx *kong.DecodeContext, target reflect.Value) error {
	return decode(ctx, target, func(text string) error {
		if words := ctx.Value.Tag.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), text) {
			return &Error{Got: text, Takes: either(strings.Split(words, ","))}
		}
		if level, ok := target.Addr().Interface().(*slog.Level); ok {
			return level.UnmarshalText([]byte(text))
		}
		target.SetString(text)
		return nil
	})
}

// decodeNumber decodes a number within the bounds of the tags min and max.
func decodeNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	return decode(ctx, target, func(text string) error {
		lo, errLo := strconv.ParseInt(ctx.Value.Tag.Get("min"), 10, 64)
		hi, errHi := strconv.ParseInt(ctx.Value.Tag.Get("max"), 10, 64)
		if err := errors.Join(errLo, errHi); err != nil {
			panic(fmt.Sprintf("config: the bounds of --%s: %v", ctx.Value.Name, err))
		}
		n, err := wholeNumber(text, lo, hi)
		target.SetInt(n)
		return err
	})
}

// decode passes the text of a setting or of a flag to assign. If assign returns an [*Error], decode adds the name of the setting or
// of the flag. If the text is empty and the setting has no default, decode sets the setting to the zero value and does not call
// assign.
func decode(ctx *kong.DecodeContext, target reflect.Value, assign func(text string) error) error {
	var text string
	if err := ctx.Scan.PopValueInto("string", &text); err != nil {
		return err
	}
	isSetting := ctx.Value.Flag != nil && len(ctx.Value.Flag.Envs) > 0
	if text == "" && isSetting && !ctx.Value.HasDefault {
		target.SetZero()
		return nil
	}
	err := assign(text)
	if refused := (*Error)(nil); errors.As(err, &refused) && ctx.Value.Flag != nil {
		refused.Name = "--" + ctx.Value.Name
		if isSetting {
			refused.Name = ctx.Value.Flag.Envs[0]
		}
	}
	return err
}
