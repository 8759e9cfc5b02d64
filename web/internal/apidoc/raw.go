package apidoc

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// The raw types have the form of the YAML text.
type (
	rawDocument struct {
		Info       struct{ Title, Version, Description string }
		Paths      ordered[rawPath]
		Components struct {
			Parameters ordered[rawParameter]
			Responses  ordered[rawResponse]
			Schemas    ordered[rawSchema]

			SecuritySchemes ordered[struct{ Type, Scheme, Description string }] `yaml:"securitySchemes"`
		}
	}
	rawPath struct {
		Parameters                          []rawParameter
		Get, Post, Put, Patch, Delete, Head *rawOperation
	}
	rawOperation struct {
		Summary, Description string
		Security             []ordered[[]string] // alternatives; an empty one permits anonymous requests
		Parameters           []rawParameter
		RequestBody          *rawBody `yaml:"requestBody"`
		Responses            ordered[rawResponse]
	}
	rawParameter struct {
		Ref                   string `yaml:"$ref"`
		Name, In, Description string
		Required              bool
		Schema                rawSchema
	}
	rawBody struct {
		Description string
		Content     rawContent
	}
	rawResponse struct {
		Ref         string `yaml:"$ref"`
		Description string
		Headers     ordered[rawParameter]
		Content     rawContent
	}
	rawContent ordered[rawMedia]
	rawMedia   struct {
		Schema   rawSchema
		Example  yaml.Node
		Examples ordered[struct{ Value yaml.Node }]
	}
)

// ordered is a mapping in the order of the text.
type ordered[T any] []struct {
	key   string
	value T
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		var value T
		if err := n.Content[i+1].Decode(&value); err != nil {
			return err
		}
		*o = append(*o, struct {
			key   string
			value T
		}{n.Content[i].Value, value})
	}
	return nil
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (c *rawContent) UnmarshalYAML(n *yaml.Node) error {
	return (*ordered[rawMedia])(c).UnmarshalYAML(n)
}

// operations returns the operations of a path in a fixed order.
func (p *rawPath) operations() ordered[rawOperation] {
	var all ordered[rawOperation]
	for i, o := range []*rawOperation{p.Get, p.Head, p.Post, p.Put, p.Patch, p.Delete} {
		if o != nil {
			all = append(all, struct {
				key   string
				value rawOperation
			}{[]string{"get", "head", "post", "put", "patch", "delete"}[i], *o})
		}
	}
	return all
}

// access returns the first scheme among the alternatives. It also returns whether a request may be anonymous.
func (o *rawOperation) access() (a Access) {
	for _, alternative := range o.Security {
		if len(alternative) == 0 {
			a.Optional = true
		} else if a.Scheme == "" {
			a.Scheme = alternative[0].key
		}
	}
	return a
}

// body returns the body of a request, or nil if b is nil.
func (b *rawBody) body() *Body {
	if b == nil {
		return nil
	}
	return &Body{Description: b.Description, Media: b.Content.media()}
}

func (c rawContent) media() []Media {
	var all []Media
	for i := range c {
		m := &c[i]
		media := Media{Name: m.key, Type: m.value.Schema.typ()}
		examples := []*yaml.Node{&m.value.Example}
		for j := range m.value.Examples {
			examples = append(examples, &m.value.Examples[j].value.Value)
		}
		for _, e := range slices.DeleteFunc(examples, (*yaml.Node).IsZero) {
			media.Examples = append(media.Examples, exampleText(m.key, e))
		}
		all = append(all, media)
	}
	return all
}

func (r *rawResponse) headers() []Member {
	var all []Member
	for i := range r.Headers {
		h := &r.Headers[i]
		all = append(all, Member{Name: h.key, Type: h.value.Schema.typ(), Required: h.value.Required, Description: h.value.description()})
	}
	return all
}

// description returns the description of a parameter, or the description of its schema.
func (p *rawParameter) description() string {
	if p.Description != "" {
		return p.Description
	}
	return p.Schema.Description
}
