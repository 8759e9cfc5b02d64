package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"keypool/web/internal/media"
	"keypool/web/internal/shell"
)

// contract checks each exchange against openapi.yaml. The document must describe each
// answer of its paths, and each request that succeeds.
type contract struct {
	t      *testing.T
	router routers.Router
	next   http.RoundTripper
}

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(shell.Asset(assets, "assets/openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func newContract(t *testing.T, next http.RoundTripper) *contract {
	t.Helper()
	router, err := gorillamux.NewRouter(document(t))
	if err != nil {
		t.Fatal(err)
	}
	return &contract{t: t, router: router, next: next}
}

// RoundTrip implements http.RoundTripper. A violation fails the test.
func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		// The request keeps its ContentLength, so a test can send a body with or without the header
		// Content-Length.
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if err := c.check(r, sent, resp, got); err != nil {
		c.t.Errorf("%s %s %q: status %d: %v", r.Method, r.URL.Path, sent, resp.StatusCode, err)
	}
	return resp, nil
}

func (c *contract) check(r *http.Request, sent []byte, resp *http.Response, got []byte) error {
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(sent))
	asked.URL.RawPath = "" // the document describes decoded paths
	route, params, err := c.router.FindRoute(asked)
	if unlisted := resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotFound; err != nil && unlisted {
		return nil // the server must refuse a path that the document does not list
	}
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusMethodNotAllowed {
		return errors.New("the document allows the method")
	}
	input := &openapi3filter.RequestValidationInput{
		Request: asked, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: hasBearer},
	}
	if resp.StatusCode < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
			return err
		}
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: r.Method == http.MethodHead},
	}
	return openapi3filter.ValidateResponse(r.Context(), output.SetBodyBytes(got))
}

// hasBearer accepts a request with an Authorization header. The answer of the service shows whether the token is
// valid.
func hasBearer(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	if input.RequestValidationInput.Request.Header.Get("Authorization") == "" {
		return input.NewError(errors.New("the request has no Authorization header"))
	}
	return nil
}

func TestOpenAPIDocumentIsValid(t *testing.T) {
	t.Parallel()
	if err := document(t).Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

// The document lists the routes of the router and no others.
func TestOpenAPIDocumentListsEveryRoute(t *testing.T) {
	t.Parallel()
	var served []string
	for _, r := range NewPublic(PublicConfig{}).Routes() {
		if r.Name != refused {
			served = append(served, r.Method+" "+strings.NewReplacer(":code", "{code}", "*", "{rest}").Replace(r.Path))
		}
	}
	// The router serves previews and QR codes on the route of codes. The document lists them as separate paths.
	for _, suffix := range []string{"+", suffixSVG, suffixPNG} {
		served = append(served, "GET /{code}"+suffix, "HEAD /{code}"+suffix)
	}
	var documented []string
	for path, item := range document(t).Paths.Map() {
		for method := range maps.Keys(item.Operations()) {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("documented (-) and served (+):\n%s", diff)
	}
}

// This test checks contract itself, which must detect exchanges that violate the document.
func TestContractCheckDetectsViolationsOfOpenAPIDocument(t *testing.T) {
	t.Parallel()
	c := newContract(t, nil)
	for name, resp := range map[string]*http.Response{
		"status": {StatusCode: http.StatusTeapot, Header: http.Header{"Content-Type": {media.Problem}}},
		"header": {StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://go.dev"}}},
		"media":  {StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {media.JSON}}},
		"body":   {StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {media.Problem}}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/abc", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.check(r, nil, resp, []byte(`{"status":404}`)); err == nil {
			t.Errorf("contract does not detect a wrong %s", name)
		}
	}
}
