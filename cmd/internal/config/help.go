package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the maximum length of a line of --help, in columns. On a narrower terminal, lines
// are shorter.
const helpWidth = 110

// Example is a command line that --help shows.
type Example struct{ Command, Comment string }

// groups returns the groups of the settings in the order of --help.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "listeners", Title: "Listeners:"},
		{Key: "destinations", Title: "Destinations and pages:"},
		{Key: "visits", Title: "Visits:"},
		{Key: "database", Title: "Database:"},
		{Key: "keys", Title: "Keys:"},
		{Key: "pool", Title: "Pool and dead man's switch:"},
		{Key: "fallback", Title: "Fallback:"},
		{Key: "limits", Title: "Clients and limits:"},
		{Key: "operation", Title: "Operation and logs:"},
	}
}

// sortByGroup sorts flags by their groups. Flags without a group come first.
func sortByGroup(flags []*kong.Flag) {
	rank := make(map[string]int)
	for i, g := range groups() {
		rank[g.Key] = i + 1
	}
	of := func(f *kong.Flag) int {
		if f.Group == nil {
			return 0
		}
		return rank[f.Group.Key]
	}
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return cmp.Compare(of(a), of(b)) })
}

// examples returns the text after the description: the examples and the precedence of flags.
func (p Program) examples() string {
	var text strings.Builder
	text.WriteString("\n\nExamples:")
	for _, e := range p.Examples {
		fmt.Fprintf(&text, "\n  # %s\n  %s", e.Comment, e.Command)
	}
	text.WriteString("\n\nThe description of a setting ends with its environment variable. The flag overrides this variable.")
	return text.String()
}

// describe returns the help of a setting, followed by the name of its environment variable.
func describe(value *kong.Value) string {
	if value.Flag == nil || len(value.Flag.Envs) == 0 {
		return value.Help
	}
	return value.Help + " ($" + value.Flag.Envs[0] + ")"
}
