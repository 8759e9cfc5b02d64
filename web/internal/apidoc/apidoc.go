// Package apidoc reads an OpenAPI 3.0 description for a page that shows it to people.
//
// The package reads the parts of OpenAPI that the description of this service uses. It keeps the
// order of the description, except for the order of the methods of a path. It resolves
// references to parameters and responses. A reference to a schema stays a name, because the page
// describes each schema once.
package apidoc

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is an API description.
type Document struct {
	Title, Version, Description string
	Paths                       []Path
	Schemes                     []Member // how a request authenticates
	Schemas                     []Schema
}

// Path is a path with its operations.
type Path struct {
	Path       string
	Operations []Operation
}

// Operation is a method of a path.
type Operation struct {
	Method               string // in upper case
	Summary, Description string
	Access               Access
	Parameters           []Member
	Body                 *Body // nil if the request has no body
	Responses            []Response
}

// Access describes whether a request authenticates.
type Access struct {
	Scheme   string // the name of the authentication scheme, or "" if there is none
	Optional bool   // the request may also be anonymous
}

// Succeeding returns the responses whose status is below 400.
func (o *Operation) Succeeding() []Response { return o.answers(false) }

// Failing returns the responses whose status is 400 or more.
func (o *Operation) Failing() []Response { return o.answers(true) }

func (o *Operation) answers(failing bool) []Response {
	var all []Response
	for _, r := range o.Responses {
		if (r.Status >= "400") == failing {
			all = append(all, r)
		}
	}
	return all
}

// Body is the body of a request.
type Body struct {
	Description string
	Media       []Media
}

// Response is an answer with one status.
type Response struct {
	Status, Description string
	Headers             []Member
	Media               []Media
}

// Media is a media type of a body, with examples.
type Media struct {
	Name     string
	Type     Type
	Examples []string
}

// Schema is a named schema. It has members if it is an object.
type Schema struct {
	Name, Description string
	Type              Type
	Members           []Member
}

// Member is a parameter, a header or a member of an object.
type Member struct {
	Name        string
	In          string // of a parameter: "path", "query" or "header"
	Type        Type
	Required    bool
	Description string
}

// Type describes the values of a schema.
type Type struct {
	Text string // such as "string" or "array of "
	Ref  string // the name of a schema that completes the text, or ""
	Rest string // restrictions, such as "64 to 2048, default 256"
}

// Parse reads a description in YAML. It fails if the description is malformed or contains a
// reference that Parse cannot resolve.
func Parse(text []byte) (*Document, error) {
	var raw rawDocument
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("parse the API description: %w", err)
	}
	d := &Document{Title: raw.Info.Title, Version: raw.Info.Version, Description: raw.Info.Description}
	for _, p := range raw.Paths {
		path, err := raw.path(p.key, p.value)
		if err != nil {
			return nil, fmt.Errorf("read the path %s of the API description: %w", p.key, err)
		}
		d.Paths = append(d.Paths, path)
	}
	for _, s := range raw.Components.SecuritySchemes {
		d.Schemes = append(d.Schemes, Member{Name: s.key, Type: Type{Text: s.value.Type + " " + s.value.Scheme}, Description: s.value.Description})
	}
	for i := range raw.Components.Schemas {
		s := &raw.Components.Schemas[i]
		d.Schemas = append(d.Schemas, Schema{
			Name: s.key, Description: s.value.Description, Type: s.value.typ(), Members: s.value.members(),
		})
	}
	return d, nil
}

func (d *rawDocument) path(name string, p rawPath) (Path, error) {
	shared, err := d.parameters(p.Parameters)
	if err != nil {
		return Path{}, err
	}
	path := Path{Path: name}
	for _, o := range p.operations() {
		own, err := d.parameters(o.value.Parameters)
		if err != nil {
			return Path{}, err
		}
		responses, err := d.responses(o.value.Responses)
		if err != nil {
			return Path{}, err
		}
		path.Operations = append(path.Operations, Operation{
			Method: strings.ToUpper(o.key), Summary: o.value.Summary, Description: o.value.Description,
			Access:     o.value.access(),
			Parameters: append(shared[:len(shared):len(shared)], own...), Body: o.value.RequestBody.body(), Responses: responses,
		})
	}
	return path, nil
}

func (d *rawDocument) parameters(raw []rawParameter) ([]Member, error) {
	var all []Member
	for i := range raw {
		p, err := resolve(raw[i].Ref, "parameters", raw[i], d.Components.Parameters)
		if err != nil {
			return nil, err
		}
		all = append(all, Member{Name: p.Name, In: p.In, Type: p.Schema.typ(), Required: p.Required, Description: p.description()})
	}
	return all, nil
}

func (d *rawDocument) responses(raw ordered[rawResponse]) ([]Response, error) {
	var all []Response
	for _, r := range raw {
		response, err := resolve(r.value.Ref, "responses", r.value, d.Components.Responses)
		if err != nil {
			return nil, err
		}
		all = append(all, Response{
			Status: r.key, Description: response.Description, Headers: response.headers(), Media: response.Content.media(),
		})
	}
	return all, nil
}

// resolve returns the component that ref names, or own if there is no reference.
func resolve[T any](ref, kind string, own T, components ordered[T]) (T, error) {
	if ref == "" {
		return own, nil
	}
	for _, c := range components {
		if ref == "#/components/"+kind+"/"+c.key {
			return c.value, nil
		}
	}
	return own, fmt.Errorf("the reference %q names none of the %s", ref, kind)
}
