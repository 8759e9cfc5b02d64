package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"keypool/internal/testenv/browser"
	"keypool/web/internal/media"
)

// spoken returns the elements of the page that a screen reader finds, as "role name: description".
func spoken(t *testing.T, b *browser.Tab) (elements []string) {
	t.Helper()
	var tree chromedp.Action[accessibility.GetFullAXTreeResult] = func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	}
	text := func(v *accessibility.Value) (s string) {
		if v == nil || v.Value == nil {
			return ""
		}
		if err := json.Unmarshal([]byte(v.Value), &s); err != nil {
			t.Fatalf("decode %s: %v", v.Value, err)
		}
		return s
	}
	for _, n := range browser.Of(b, tree).Nodes {
		if !n.Ignored {
			elements = append(elements, text(n.Role)+" "+text(n.Name)+": "+text(n.Description))
		}
	}
	return elements
}

// If the person and another request changed a field, a screen reader announces the stored value together with the field.
func TestUIDescribesFieldsWithStoredValues(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	authorization := []string{"Authorization", "Bearer " + bearer}
	wantPage(t, s.create(t, `{"url":"https://go.dev/","alias":"both","editable":true}`, authorization...), http.StatusCreated)
	b.Do(signIn(s.url, bearer), chromedp.Navigate(s.url+"/admin/code/both"))
	wantPage(t, s.do(t, http.MethodPatch, "/api/links/both",
		`{"url":"https://go.dev/theirs","title":"theirs","tags":["their"],"expires_at":"2098-01-01T00:00:00Z","redirect":308,"forward":"query"}`,
		append(authorization, "Content-Type", media.MergePatch)...), http.StatusOK)
	b.Do(
		setValue("#url", "https://go.dev/mine"), setValue("#title", "mine"), setValue("#tags", "my"), setValue("#expires_at", "2099-01-01T00:00"),
		setValue("#redirect", "301"), setValue("#forward", "query+path"), chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("#url-other")),
	)
	all := strings.Join(spoken(t, b), "\n")
	for _, want := range []string{
		"textbox Destination: Stored now: https://go.dev/theirs", "textbox Title optional: Stored now: theirs", "textbox Tags optional, one per line: Stored now: their",
		"Expires optional, in UTC: Stored now: 2098-01-01 00:00", "combobox Status: Stored now: 308", "combobox Append to the destination: Stored now: query",
	} {
		if !strings.Contains(all, want+"\n") {
			t.Errorf("a screen reader does not find %q in:\n%s", want, all)
		}
	}
}

// Each button that copies a link has the short URL in its name. The element for the message about the
// result is on the page before the message appears, because a screen reader may not announce an element that appears
// together with its text.
func TestNameOfEachCopyButtonContainsShortURL(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	for _, alias := range []string{"one", "two"} {
		wantPage(t, s.create(t, `{"url":"https://go.dev/","alias":"`+alias+`"}`, "Authorization", "Bearer "+bearer), http.StatusCreated)
	}
	b.Do(signIn(s.url, bearer), chromedp.WaitVisible(chromedp.CSS("[data-copy=short-one]")))
	all := strings.Join(spoken(t, b), "\n")
	for _, alias := range []string{"one", "two"} {
		if want := "button Copy " + s.url + "/" + alias + ":"; !strings.Contains(all, want) {
			t.Errorf("a screen reader does not find %q in:\n%s", want, all)
		}
	}
	if n := strings.Count(all, "status : "); n != 2 {
		t.Errorf("a screen reader finds %d elements for a message, want 2:\n%s", n, all)
	}
	const edge = `document.querySelector(".act").getBoundingClientRect().right - document.querySelector("[data-copy]").getBoundingClientRect().right`
	if right := browser.Of(b, chromedp.Evaluate[float64](edge)); right != 0 {
		t.Errorf("the button is %v px away from the edge of the list", right)
	}
}
