package apidoc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `
openapi: 3.0.3
info: { title: Sample, version: "2", description: About it. }
paths:
  /z/{id}:
    parameters:
      - $ref: "#/components/parameters/ID"
    head: { summary: Headers, responses: &found { "200": { $ref: "#/components/responses/Found" } } }
    get:
      summary: Read
      parameters:
        - { name: size, in: query, schema: { type: integer, minimum: 1, maximum: 9, default: 3, description: The size. } }
      responses: *found
  /a:
    post:
      summary: Write
      description: Writes it.
      security: [{}, { key: [] }]
      requestBody:
        description: Small.
        content:
          application/json:
            schema: { $ref: "#/components/schemas/Thing" }
            examples:
              one: { value: { name: "<b>&", count: 3, tags: [x, y, z], none: null } }
          application/x-www-form-urlencoded:
            schema: { $ref: "#/components/schemas/Thing" }
            example: { name: "<b>&", count: 3 }
      responses:
        "201": { description: Done. }
components:
  securitySchemes:
    key: { type: http, scheme: bearer, description: A key. }
  parameters:
    ID: { name: id, in: path, required: true, description: The name., schema: { type: string, pattern: "^x$" } }
  schemas:
    Thing:
      type: object
      description: A thing.
      required: [name]
      properties:
        name: { type: string, maxLength: 5, nullable: true, description: Its name. }
        when: { oneOf: [{ type: number }, { $ref: "#/components/schemas/Thing" }] }
        kind: { type: string, enum: [a, b] }
        list: { type: array, maxItems: 2, items: { $ref: "#/components/schemas/Thing" } }
        both: { allOf: [{ $ref: "#/components/schemas/Thing" }, { required: [when] }] }
        count: { type: integer, format: int64, minimum: 1 }
  responses:
    Found:
      description: The thing.
      headers:
        ETag: { required: true, description: The version., schema: { type: string } }
      content:
        text/plain: { schema: { type: string }, example: "a line\n" }
`

func TestParseReadsWholeAPIDescription(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	id := Member{Name: "id", In: "path", Type: Type{Text: "string", Rest: "pattern ^x$"}, Required: true, Description: "The name."}
	found := []Response{{
		Status: "200", Description: "The thing.",
		Headers: []Member{{Name: "ETag", Type: Type{Text: "string"}, Required: true, Description: "The version."}},
		Media:   []Media{{Name: "text/plain", Type: Type{Text: "string"}, Examples: []string{"a line\n"}}},
	}}
	example := `{
  "name": "<b>&",
  "count": 3,
  "tags": [
    "x",
    "y",
    "z"
  ],
  "none": null
}`
	want := &Document{
		Title: "Sample", Version: "2", Description: "About it.",
		Paths: []Path{
			{Path: "/z/{id}", Operations: []Operation{
				{Method: "GET", Summary: "Read", Responses: found, Parameters: []Member{
					id, {Name: "size", In: "query", Type: Type{Text: "integer", Rest: "1 to 9; default 3"}, Description: "The size."},
				}},
				{Method: "HEAD", Summary: "Headers", Parameters: []Member{id}, Responses: found},
			}},
			{Path: "/a", Operations: []Operation{{
				Method: "POST", Summary: "Write", Description: "Writes it.", Access: Access{Scheme: "key", Optional: true},
				Body: &Body{Description: "Small.", Media: []Media{
					{Name: "application/json", Type: Type{Ref: "Thing"}, Examples: []string{example}},
					{Name: "application/x-www-form-urlencoded", Type: Type{Ref: "Thing"}, Examples: []string{"name=%3Cb%3E%26&count=3"}},
				}},
				Responses: []Response{{Status: "201", Description: "Done."}},
			}}},
		},
		Schemes: []Member{{Name: "key", Type: Type{Text: "http bearer"}, Description: "A key."}},
		Schemas: []Schema{{
			Name: "Thing", Description: "A thing.", Type: Type{Text: "object"},
			Members: []Member{
				{Name: "name", Type: Type{Text: "string", Rest: "at most 5 characters; may be null"}, Required: true, Description: "Its name."},
				{Name: "when", Type: Type{Text: "number or Thing"}},
				{Name: "kind", Type: Type{Text: "string", Rest: "one of a, b"}},
				{Name: "list", Type: Type{Text: "array of ", Ref: "Thing", Rest: "at most 2 elements"}},
				{Name: "both", Type: Type{Ref: "Thing"}},
				{Name: "count", Type: Type{Text: "integer", Rest: "int64; at least 1"}},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-) and got (+):\n%s", diff)
	}
}

func TestParseRefusesMalformedAPIDescriptions(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"syntax":    "paths: [",
		"type":      "paths: { /a: { get: 5 } }",
		"parameter": strings.Replace(sample, "parameters/ID", "parameters/Other", 1),
		"response":  strings.Replace(sample, "responses/Found", "responses/Other", 1),
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse accepts a description with a wrong %s", name)
		}
	}
}
