package apidoc

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// rawSchema is a schema as the YAML text has it.
type rawSchema struct {
	Ref                                string `yaml:"$ref"`
	Type, Format, Pattern, Description string
	Enum                               []string
	Default                            *string
	Minimum, Maximum                   *string
	MaxLength                          *string `yaml:"maxLength"`
	MaxItems                           *string `yaml:"maxItems"`
	Nullable                           bool
	Items                              *rawSchema
	OneOf                              []rawSchema `yaml:"oneOf"`
	AllOf                              []rawSchema `yaml:"allOf"`
	Properties                         ordered[rawSchema]
	Required                           []string
}

// typ describes the values of the schema.
func (s *rawSchema) typ() Type {
	switch {
	case s.Ref != "":
		return Type{Ref: path.Base(s.Ref)}
	case len(s.AllOf) > 0:
		return s.AllOf[0].typ()
	case len(s.OneOf) > 0:
		var texts []string
		for i := range s.OneOf {
			t := s.OneOf[i].typ()
			texts = append(texts, t.Text+t.Ref)
		}
		return Type{Text: strings.Join(texts, " or "), Rest: s.rest()}
	case s.Items != nil:
		item := s.Items.typ()
		return Type{Text: "array of " + item.Text, Ref: item.Ref, Rest: s.rest()}
	}
	return Type{Text: s.Type, Rest: s.rest()}
}

// rest describes the restrictions of the schema.
func (s *rawSchema) rest() string {
	var all []string
	add := func(format string, a ...any) { all = append(all, fmt.Sprintf(format, a...)) }
	if s.Format != "" {
		add("%s", s.Format)
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		add("%s to %s", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		add("at least %s", *s.Minimum)
	}
	if s.MaxLength != nil {
		add("at most %s characters", *s.MaxLength)
	}
	if s.MaxItems != nil {
		add("at most %s elements", *s.MaxItems)
	}
	if len(s.Enum) > 0 {
		add("one of %s", strings.Join(s.Enum, ", "))
	}
	if s.Pattern != "" {
		add("pattern %s", s.Pattern)
	}
	if s.Default != nil {
		add("default %s", *s.Default)
	}
	if s.Nullable {
		add("may be null")
	}
	return strings.Join(all, "; ")
}

// members returns the members of an object.
func (s *rawSchema) members() []Member {
	var all []Member
	for i := range s.Properties {
		p := &s.Properties[i]
		all = append(all, Member{
			Name: p.key, Type: p.value.typ(), Required: slices.Contains(s.Required, p.key), Description: p.value.Description,
		})
	}
	return all
}
