package apidoc

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

const mediaForm = "application/x-www-form-urlencoded"

// exampleText returns an example as it appears in a body. A text stays as it is. An object becomes a form if
// media is the media type of forms. Any other value becomes indented JSON, with its members in the order of
// the description.
func exampleText(media string, n *yaml.Node) string {
	switch {
	case n.Kind == yaml.ScalarNode:
		return n.Value
	case n.Kind == yaml.MappingNode && media == mediaForm:
		return formText(n)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, appendJSON(nil, n), "", "  "); err != nil {
		return n.Value // appendJSON writes only well-formed JSON
	}
	return out.String()
}

func formText(n *yaml.Node) string {
	var fields []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		fields = append(fields, url.QueryEscape(n.Content[i].Value)+"="+url.QueryEscape(n.Content[i+1].Value))
	}
	return strings.Join(fields, "&")
}

func appendJSON(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.AliasNode:
		return appendJSON(b, n.Alias)
	case yaml.MappingNode:
		b = append(b, '{')
		for i, child := range n.Content {
			b = appendJSON(append(b, separator(i, ":")...), child)
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, child := range n.Content {
			b = appendJSON(append(b, separator(i, ",")...), child)
		}
		return append(b, ']')
	}
	return append(b, scalar(n)...)
}

// separator returns what precedes the i-th element. In a mapping, names and values alternate.
func separator(i int, between string) string {
	switch {
	case i == 0:
		return ""
	case i%2 == 1:
		return between
	}
	return ","
}

// scalar returns a scalar as JSON. The description writes numbers, booleans and null as JSON does, although YAML has other
// forms too.
func scalar(n *yaml.Node) []byte {
	switch n.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		return []byte(n.Value)
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(n.Value); err != nil {
		return nil // the encoding of a string cannot fail
	}
	return bytes.TrimSpace(quoted.Bytes())
}
