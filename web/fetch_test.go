package web

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The service never fetches a destination. Therefore the packages that handle links use nothing that makes an outgoing
// request or connection. The packages shortener, destination and service do not import net/http.
func TestServiceNeverSendsRequestsToURLsOfLinks(t *testing.T) {
	t.Parallel()
	clients := map[string][]string{
		"net/http": {
			"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "NewRequest", "NewRequestWithContext", "Post", "PostForm", "RoundTripper", "Transport",
		},
		"net": {
			"Dial", "DialIP", "DialTCP", "DialTimeout", "DialUDP", "DialUnix", "Dialer", "DefaultResolver", "LookupAddr", "LookupCNAME", "LookupHost",
			"LookupIP", "LookupMX", "LookupNS", "LookupPort", "LookupSRV", "LookupTXT", "ResolveIPAddr", "ResolveTCPAddr", "ResolveUDPAddr", "Resolver",
		},
		"crypto/tls":        {"Client", "Dial", "DialWithDialer", "Dialer"},
		"net/http/httputil": {"NewSingleHostReverseProxy", "ReverseProxy"},
		"os/exec":           {"Command", "CommandContext"},
	}
	for _, pattern := range []string{"*.go", "api/*.go", "client/*.go", "httpserver/*.go", "internal/*/*.go", "ui/*.go", "../shortener/*.go", "../shortener/destination/*.go", "../shortener/service/*.go", "../shortener/transfer/*.go", "../shortener/visits/*.go"} {
		for _, use := range usesOf(t, pattern, clients) {
			t.Error(use)
		}
	}
	for _, pattern := range []string{"../shortener/*.go", "../shortener/destination/*.go", "../shortener/service/*.go"} {
		for _, use := range usesOf(t, pattern, map[string][]string{"net/http": nil}) {
			t.Error(use)
		}
	}
	// Check usesIn itself: it must find the use of http.Client in main_test.go.
	if usesIn(t, "main_test.go", clients) == nil {
		t.Error("the test does not detect the http.Client of main_test.go")
	}
}

// usesOf returns the uses of names in the files that match a pattern, except tests.
func usesOf(t *testing.T, pattern string, names map[string][]string) (uses []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			uses = append(uses, usesIn(t, file, names)...)
		}
	}
	return uses
}

// usesIn returns the positions at which a file uses names. Each key of the map is an import path, and its value lists
// identifiers of the imported package. If the list is empty, or if the file renames the package, the import itself
// counts as a use.
func usesIn(t *testing.T, path string, names map[string][]string) (uses []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := make(map[string][]string) // by the last element of the import path
	for _, spec := range file.Imports {
		from := strings.Trim(spec.Path.Value, `"`)
		listed, known := names[from]
		if !known {
			continue
		}
		if len(listed) == 0 || spec.Name != nil {
			uses = append(uses, files.Position(spec.Pos()).String()+": imports "+from)
		}
		imported[from[strings.LastIndexByte(from, '/')+1:]] = listed
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(imported[pkg.Name], selector.Sel.Name) {
			uses = append(uses, files.Position(selector.Pos()).String()+": uses "+pkg.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return uses
}
