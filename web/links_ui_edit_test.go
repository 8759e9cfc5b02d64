package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keypool/internal/testenv/browser"
	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/internal/media"
)

// If two people change a link at the same time, the person who saves last sees both values and loses
// no input.
func TestUIShowsStoredValuesAfterConcurrentChange(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	fields := formOf("https://go.dev/")
	fields["alias"], fields["title"] = []string{"both"}, []string{"first"}
	fields["editable"], fields["tags"] = []string{"true"}, []string{"a"}
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	b.Do(
		signIn(s.url, bearer),
		chromedp.Navigate(s.url+"/admin/code/both"),
		setValue("#title", "mine"),
	)
	theirs := s.do(t, http.MethodPatch, "/api/links/both", `{"title":"theirs","url":"https://go.dev/theirs"}`,
		"Authorization", "Bearer "+bearer, "Content-Type", media.MergePatch)
	wantPage(t, theirs, http.StatusOK)
	b.Do(chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS(".other")))
	b.CheckLooks("conflict")
	if title, stored := browser.Of(b, chromedp.Value(chromedp.CSS("#title"))), browser.Of(b, chromedp.Text(chromedp.CSS(".other"))); title != "mine" || stored != "Stored now: theirs" {
		t.Errorf("the field contains %q, and beside it is %q", title, stored)
	}
	b.Do(chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS(".flash")))
	got := s.do(t, http.MethodGet, "/api/links/both", "", "Authorization", "Bearer "+bearer).body
	for _, part := range []string{`"title":"mine"`, `"url":"https://go.dev/theirs"`, `"tags":["a"]`, `"version":3`} {
		if !strings.Contains(got, part) {
			t.Errorf("the link is %s, want %s", got, part)
		}
	}
}

// A double click on Save sends the form twice. The person sees the result of the first request.
func TestUISavesFormThatIsSentTwice(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	fields := formOf("https://go.dev/")
	fields["alias"], fields["title"] = []string{"twice"}, []string{"first"}
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	change := url.Values{
		"version": {"1"}, "title": {"second"}, "seen_title": {"first"}, "redirect": {"302"}, "seen_redirect": {"302"}, "forward": {"none"}, "seen_forward": {"none"},
	}
	for range 2 {
		saved := s.form(t, bearer, "/admin/code/twice", change)
		wantPage(t, saved, http.StatusSeeOther)
		if location := saved.header.Get("Location"); !strings.Contains(location, "said=saved") {
			t.Errorf("the answer redirects to %s, want said=saved", location)
		}
	}
}

// The service normalizes values, so the stored values may differ from the typed values. Even so, if a form is sent twice,
// the second request does not conflict with the first.
func TestUISavesFormWithNormalizedValuesThatIsSentTwice(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	fields := url.Values(formOf("https://go.dev/"))
	fields.Set("alias", "normal")
	fields.Set("editable", "true")
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	change := url.Values{
		"version": {"1"}, "url": {"https://GO.dev/ä"}, "seen_url": {"https://go.dev/"}, "tags": {"a\r\na"},
		"redirect": {"302"}, "seen_redirect": {"302"}, "forward": {"none"}, "seen_forward": {"none"},
	}
	for range 2 {
		saved := s.form(t, bearer, "/admin/code/normal", change)
		wantPage(t, saved, http.StatusSeeOther)
		wantHeader(t, saved, "Location", "/admin/code/normal?said=saved")
	}
	change.Set("url", "https://go.dev/ö")
	wantPage(t, s.form(t, bearer, "/admin/code/normal", change), http.StatusConflict, "Another request changed this link", `value="https://go.dev/ö"`)
}

// lostStore is a store that answers a number of Lookups, and then fails.
type lostStore struct {
	shortener.Store
	lookups atomic.Int64 // number of Lookups that still succeed
}

func (s *lostStore) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	if s.lookups.Add(-1) < 0 {
		return shortener.Link{}, errors.New("connection refused")
	}
	return s.Store.Lookup(ctx, code)
}

// A form keeps its input if the database fails before the change, or between a refused change and the next read of the link.
func TestUIKeepsInputDuringDatabaseOutage(t *testing.T) {
	t.Parallel()
	var store *lostStore
	s := newUISite(t, "", func(c *PublicConfig) {
		c.Service, _ = newService(t, func(next shortener.Store) shortener.Store {
			store = &lostStore{Store: next}
			return store
		})
	})
	store.lookups.Store(1000)
	bearer := s.bearer(t, "alice", ownScopes)
	fields := url.Values(formOf("https://go.dev/"))
	fields.Set("alias", "away")
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	for answered, version := range []string{"1", "7"} { // after one answer, the change is refused because of its version
		store.lookups.Store(int64(answered))
		change := url.Values{
			"version": {version}, "title": {"Kept <title>"}, "seen_title": {"seen"}, "tags": {"a\r\nb"}, "expires_at": {"2099-01-01T00:00"},
			"redirect": {"301"}, "seen_redirect": {"302"}, "forward": {"none"}, "seen_forward": {"none"},
		}
		r := s.form(t, bearer, "/admin/code/away?list=q%3Da", change)
		wantPage(t, r, http.StatusServiceUnavailable, "The service cannot handle the request at present", `action="/admin/code/away?list=q%3Da"`,
			`value="Kept &lt;title&gt;"`, `name="seen_title" value="seen"`, ">\na\nb</textarea>", `value="2099-01-01T00:00"`, `<option value="301" selected>`,
			`name="version" value="`+version+`"`, "This link is fixed")
		if r.header.Get("Retry-After") == "" || strings.Contains(r.body, "If-Match") || strings.Contains(r.body, `name="url"`) {
			t.Errorf("with %d answers of the database, Retry-After is %q, and the page is %s", answered, r.header.Get("Retry-After"), r.body)
		}
	}
	if !strings.Contains(s.log.String(), "connection refused") {
		t.Errorf("the log does not contain the outage: %s", s.log.String())
	}
	fields.Set("url", "https://go.dev/typed")
	fields.Set("version", "1")
	store.lookups.Store(0)
	wantPage(t, s.form(t, bearer, "/admin/code/away", fields), http.StatusServiceUnavailable, `name="url" value="https://go.dev/typed"`)
}

// A person who does not touch the expiry does not change it, although the browser formats the value of the field. The
// stored expiry keeps its fraction of a second. If another request has changed the expiry, the new expiry stays.
func TestUIDoesNotChangeUntouchedExpiry(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	authorization := []string{"Authorization", "Bearer " + bearer}
	if r := s.create(t, `{"url":"https://go.dev/","alias":"dated","expires_at":"2099-01-01T00:00:00.25Z"}`, authorization...); r.status != http.StatusCreated {
		t.Fatalf("status %d (want 201): %s", r.status, r.body)
	}
	says := func(text string) chromedp.Action[chromedp.Void] {
		return browser.Becomes(`document.querySelector(".flash")?.textContent === "` + text + `"`)
	}
	wantLink := func(parts ...string) {
		t.Helper()
		wantPage(t, s.do(t, http.MethodGet, "/api/links/dated", "", authorization...), http.StatusOK, parts...)
	}
	b.Do(signIn(s.url, bearer), chromedp.Navigate(s.url+"/admin/code/dated"), chromedp.Click(chromedp.CSS(submit)), says("Nothing was changed."))
	wantLink(`"expires_at":"2099-01-01T00:00:00.25Z"`, `"version":1`)

	b.Do(setValue("#title", "mine"))
	theirs := s.do(t, http.MethodPatch, "/api/links/dated", `{"expires_at":"2098-06-01T00:00:00.5Z"}`, append(authorization, "Content-Type", media.MergePatch)...)
	wantPage(t, theirs, http.StatusOK)
	b.Do(chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("#form-error")))
	if expiry := browser.Of(b, chromedp.Value(chromedp.CSS("#expires_at"))); expiry != "2098-06-01T00:00" {
		t.Errorf("after the conflict, the field contains %q, want the stored expiry", expiry)
	}
	b.Do(chromedp.Click(chromedp.CSS(submit)), says("The change is saved. It reaches all servers after a short delay."))
	wantLink(`"title":"mine"`, `"expires_at":"2098-06-01T00:00:00.5Z"`, `"version":3`)

	b.Do(setValue("#expires_at", "2097-01-01T00:00:07"), chromedp.Click(chromedp.CSS(submit)), browser.Becomes(`document.querySelector("dl").textContent.includes("2097")`))
	wantLink(`"expires_at":"2097-01-01T00:00:07Z"`, `"version":4`)
}

// A person can change a link whose values are as long as possible.
func TestUIChangesLinkWithLongestValues(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	const long = "\U00020000" // a Chinese character of four bytes
	var tags []string
	for i := range 16 {
		tags = append(tags, strings.Repeat(long, 31)+string(rune(0x20001+i)))
	}
	destination := "https://go.dev/?" + strings.Repeat("&=", 1016)
	fields := url.Values(formOf(destination))
	fields["alias"], fields["title"], fields["tags"] = []string{"long"}, []string{strings.Repeat(long, 200)}, []string{strings.Join(tags, "\r\n")}
	fields["editable"], fields["expires_at"] = []string{"true"}, []string{"2099-01-01T00:00:01"}
	fields["redirect"], fields["forward"] = []string{"301"}, []string{"query+path"}
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	change := url.Values{"version": {"1"}}
	for _, name := range []string{"url", "title", "tags", "expires_at", "redirect", "forward"} {
		change["seen_"+name] = fields[name]
		change[name] = fields[name]
	}
	change.Set("title", strings.Repeat(long, 199)+"x")
	r := s.form(t, bearer, "/admin/code/long", change)
	wantPage(t, r, http.StatusSeeOther)
	wantHeader(t, r, "Location", "/admin/code/long?said=saved")
	wantPage(t, s.get(t, bearer, "/admin/code/long"), http.StatusOK, strings.Repeat(long, 199)+"x", strings.Join(tags, "\n"))
}

// attribute returns the text in quotes that follows an attribute of a page, or "".
func attribute(r response, name string) string {
	_, value, _ := strings.Cut(r.body, name+`="`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}

// A form creates one link, however often a browser sends it. A person who may only create links gets no redirect after the
// creation, so a reload of the page sends the form again.
func TestRepeatedUIFormCreatesOneLink(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	admin := &uiSite{tokenSite: &tokenSite{site: &site{url: strings.TrimSuffix(s.admin, "/links"), client: s.client}}}
	owner, _ := s.issue(t, token.Token{Name: "owner", Scopes: ownScopes})
	s.poll(t)
	for name, tt := range map[string]struct {
		site         *uiSite
		bearer, base string
		owner        []string
	}{
		"person":                     {s, s.bearer(t, "alice", ownScopes), "/admin", nil},
		"person who may only create": {s, s.bearer(t, "bob", token.ScopeCreate), "/admin", nil},
		"operator":                   {admin, "", "/links", []string{strconv.FormatInt(owner.ID, 10)}},
		"operator without an owner":  {admin, "", "/links", []string{""}},
	} {
		send := func(fields url.Values) (r response, link string) {
			t.Helper()
			r = tt.site.form(t, tt.bearer, tt.base+"/new", fields)
			return r, r.header.Get("Location") + attribute(r, `id="short" class="short" href`)
		}
		key := attribute(tt.site.get(t, tt.bearer, tt.base+"/new"), `name="key" value`)
		fields := url.Values(formOf("go.dev"))
		fields["owner"], fields["key"] = tt.owner, []string{key}
		refused, _ := send(fields)
		wantPage(t, refused, http.StatusUnprocessableEntity, `name="key" value="`+key+`"`)
		fields.Set("url", "https://go.dev/")
		_, first := send(fields)
		if _, second := send(fields); first == "" || second != first {
			t.Errorf("%s: the first answer shows the link %q, and the second %q", name, first, second)
		}
		fields.Set("url", "https://go.dev/other")
		refused, _ = send(fields)
		code, _, _ := strings.Cut(path.Base(first), "?")
		wantPage(t, refused, http.StatusConflict, "This form has already created the link http", "/"+code+" with other values.")
		fields.Set("key", attribute(refused, `name="key" value`))
		if _, other := send(fields); other == "" || other == first {
			t.Errorf("%s: a form with other values and another key shows the link %q, want another link than %q", name, other, first)
		}
		fields.Set("key", "a key")
		refused, _ = send(fields)
		wantPage(t, refused, http.StatusBadRequest, "The form is malformed")
	}
}

// The tabs of a browser share one session. If a person signs in with another token after the server has sent a form, the
// form is refused. If the person sends the refused form again, it creates a link of the new token.
func TestUIFormCreatesNoLinkForPersonWhoSignedInLater(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	first, later := s.bearer(t, "alice", ownScopes), s.bearer(t, "bob", ownScopes)
	fields := url.Values(formOf("https://go.dev/"))
	fields.Set("for", attribute(s.get(t, first, "/admin/new"), `name="for" value`))
	refused := s.form(t, later, "/admin/new", fields)
	wantPage(t, refused, http.StatusConflict, "has signed in with the token bob", `value="https://go.dev/"`)
	fields.Set("for", attribute(refused, `name="for" value`))
	for _, bearer := range []string{later, first} {
		created, want := s.form(t, bearer, "/admin/new", fields), map[string]int{later: http.StatusSeeOther, first: http.StatusConflict}[bearer]
		if created.status != want {
			t.Errorf("the form that the server sent to bob has status %d, want %d", created.status, want)
		}
	}
}

// A refused form keeps the typed values and shows each error beside its field. The URL of a fixed link cannot change.
func TestRefusedUIFormKeepsInput(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	s.shorten(t, `{"url":"https://go.dev","alias":"taken"}`)
	fields := formOf("https://go.dev/kept")
	fields["alias"], fields["title"], fields["tags"], fields["expires_at"] = []string{"taken"}, []string{"Kept <title>"}, []string{"a\r\nb"}, []string{"2099-01-01T00:00"}
	var refused response
	for range 20 { // the service answers without free aliases if it does not find them in time
		began := time.Now()
		refused = s.form(t, bearer, "/admin/new", fields)
		if time.Since(began) < slowAnswer || strings.Contains(refused.body, "Free aliases") {
			break
		}
	}
	wantPage(t, refused, http.StatusConflict,
		"The alias belongs to another link", "Free aliases: <code>", `aria-describedby="prefix alias-error alias-offer"`, `value="Kept &lt;title&gt;"`, ">\na\nb</textarea>", `value="2099-01-01T00:00"`, `value="taken"`)
	fields["alias"], fields["expires_at"] = []string{"fixed"}, []string{"2001-01-01T00:00"}
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusUnprocessableEntity, `id="expires_at-error"`, "The expiry ")
	fields["expires_at"] = nil
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	page := s.get(t, bearer, "/admin/code/fixed")
	wantPage(t, page, http.StatusOK, "This link is fixed")
	if strings.Contains(page.body, `name="url"`) {
		t.Error("the form of a fixed link has a field for its URL")
	}
	change := url.Values{"version": {"1"}, "url": {"https://evil.example/"}, "seen_url": {"https://go.dev/kept"}, "title": {"typed"}, "seen_title": {"Kept <title>"}}
	wantPage(t, s.form(t, bearer, "/admin/code/fixed", change), http.StatusConflict, "its URL never changes", `value="typed"`)
	redirects(t, s.site, s.url+"/fixed", "https://go.dev/kept")
	wantPage(t, s.form(t, bearer, "/admin/code/fixed", url.Values{"version": {"x"}}), http.StatusBadRequest, "The form is malformed")
	wantPage(t, s.form(t, bearer, "/admin/new", url.Values{"title": {strings.Repeat("a", 2*maxBody)}}), http.StatusRequestEntityTooLarge)
}

// Each page of the list has a link to the next page. This link keeps the filter.
func TestUILinkListKeepsFilterOnEachPage(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	var lines strings.Builder
	for range 60 {
		lines.WriteString(`{"url":"https://go.dev/doc","tags":["t&t"]}` + "\n")
	}
	s.do(t, http.MethodPost, "/api/links", lines.String(), "Authorization", "Bearer "+bearer, "Content-Type", media.NDJSON)
	first := s.get(t, bearer, "/admin/?tag=t%26t&host=go.dev")
	wantPage(t, first, http.StatusOK, ">Older</a>")
	_, rest, _ := strings.Cut(first.body, `<nav class="pager" aria-label="Pages"><a href="`)
	older, _, found := strings.Cut(rest, `"`)
	if !found || strings.Count(first.body, `class="code"`) != 50 {
		t.Fatalf("the first page has %d links and the next address %q", strings.Count(first.body, `class="code"`), older)
	}
	second := s.get(t, bearer, strings.ReplaceAll(older, "&amp;", "&"))
	wantPage(t, second, http.StatusOK, `<a href="/admin/?host=go.dev&amp;tag=t%26t">Newest</a>`, `value="t&amp;t"`)
	if n := strings.Count(second.body, `class="code"`); n != 10 || strings.Contains(second.body, "Older") {
		t.Errorf("the second page has %d links, want the last 10", n)
	}
	wantPage(t, s.get(t, bearer, "/admin/?cursor=nonsense"), http.StatusBadRequest, "There is no such page of the list")
	wantPage(t, s.get(t, bearer, "/admin/?q=nothing"), http.StatusOK, "No link matches.")
	wantPage(t, s.get(t, bearer, "/admin/?host=+go.dev+&tag=+t%26t"), http.StatusOK, `class="code"`, `value="t&amp;t"`)
	wantPage(t, s.get(t, bearer, "/admin/?host=https://go.dev"), http.StatusUnprocessableEntity, "must be a host such as go.dev", `value="https://go.dev"`)
}

// After the deletion of a link, a person sees the page of the list from which they came.
func TestUIReturnsToPageOfListAfterDeletion(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	var lines strings.Builder
	for range 52 {
		lines.WriteString(`{"url":"https://go.dev/doc","tags":["t&t"]}` + "\n")
	}
	s.do(t, http.MethodPost, "/api/links", lines.String(), "Authorization", "Bearer "+bearer, "Content-Type", media.NDJSON)
	ready := func(selector string) chromedp.Action[chromedp.Void] {
		return browser.Becomes(`document.readyState === "complete" && document.querySelector('` + selector + `') !== null`)
	}
	b.Do(signIn(s.url, bearer), chromedp.Navigate(s.url+"/admin/?tag=t%26t&state=all"), chromedp.Click(chromedp.CSS("[rel=next]")), ready(`.pager a[href*="state=all"]:first-child:last-child`))
	address := browser.Of(b, chromedp.Location())
	b.Do(
		chromedp.Click(chromedp.CSS(".list .code")), ready("#edit-title"),
		setValue("#title", "Typed"), chromedp.Click(chromedp.CSS(submit)), ready(".flash"),
		chromedp.Click(chromedp.CSS("a.danger")), ready("button.danger"),
		chromedp.Click(chromedp.CSS("button.danger")), ready("#list-title"),
	)
	if got := browser.Of(b, chromedp.Location()); got != address+"&said=deleted" {
		t.Errorf("after the deletion, the address is %s, want that of the page of the list: %s", got, address)
	}
	for list, want := range map[string]string{
		"": "/admin/?said=deleted", "//evil.example/?q=a": "/admin/?said=deleted", "%zz": "/admin/?said=deleted", "q=a%26b&cursor=c&said=x&to=y": "/admin/?cursor=c&q=a%26b&said=deleted",
	} {
		link := decode[answer](t, s.create(t, `{"url":"https://go.dev/"}`, "Authorization", "Bearer "+bearer).body)
		r := s.form(t, bearer, "/admin/code/"+link.Code+"/delete?"+url.Values{"list": {list}}.Encode(), nil)
		wantHeader(t, r, "Location", want)
	}
}

// A QR code that a person downloads from the public or the admin listener contains the short URL.
func TestUIOffersQRCodeForDownload(t *testing.T) {
	t.Parallel()
	s := newUISite(t, "", nil)
	bearer := s.bearer(t, "alice", ownScopes)
	fields := formOf("https://go.dev/")
	fields["alias"] = []string{"mine"}
	wantPage(t, s.form(t, bearer, "/admin/new", fields), http.StatusSeeOther)
	admin := &site{url: strings.TrimSuffix(s.admin, "/links"), client: s.client}
	for _, r := range []response{s.get(t, bearer, "/admin/code/mine/qr.png"), admin.do(t, http.MethodGet, "/links/code/mine/qr.png", "")} {
		if got := scanPNG(t, r.body); got != s.url+"/mine" {
			t.Errorf("a camera reads %q from the PNG, want the short URL", got)
		}
		wantHeader(t, r, "Content-Disposition", `attachment; filename="mine.png"`)
	}
	wantPage(t, s.get(t, bearer, "/admin/code/mine/qr.svg"), http.StatusOK, "<svg xmlns")
}

// With the keyboard alone, a person signs in, creates a link, copies it, changes it and deletes it.
func TestUIIsUsableByKeyboard(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	bearer := s.bearer(t, "alice", ownScopes)
	tab := func(selector string) chromedp.Action[chromedp.Void] {
		return chromedp.Steps(browser.Press(kb.Tab), browser.Becomes(`document.activeElement.matches('`+selector+`')`))
	}
	ready := func(selector string) chromedp.Action[chromedp.Void] {
		return chromedp.WaitVisible(chromedp.CSS(selector))
	}
	nav := chromedp.Steps(tab(".brand"), tab(`.bar a[href$="/admin/"]`), tab(`.bar a[href$="/new"]`))
	b.Do(
		chromedp.Navigate(s.url+"/admin/"), ready("#token"), browser.Becomes(`document.activeElement.id === "token"`),
		browser.Press(bearer), browser.Press(kb.Enter),
		ready("#list-title"), nav, browser.Press(kb.Enter),
		ready("#submit"), browser.Becomes(`document.activeElement.id === "url"`), browser.Press("https://go.dev/"),
		tab("[name=editable]"), browser.Press(" "), tab("#alias"), browser.Press("keys"), tab("#title"), browser.Press("Typed"), tab("#tags"),
		chromedp.Focus(chromedp.CSS("#submit")), browser.Press(kb.Enter),
		ready("#link-title"), browser.Becomes(`document.readyState === "complete"`), chromedp.Focus(chromedp.CSS(`.bar button`)), // a script shows the button to copy
		tab("#short"), tab("[data-copy]"), browser.Press(kb.Enter),
		browser.Becomes(`document.querySelector(".said").textContent !== ""`),
		tab(`a[href$="qr.png"]`), tab(`a[href$="qr.svg"]`), tab("#url"), tab("#title"), browser.Press("!"), browser.Press(kb.Enter),
		browser.Becomes(`document.querySelector(".flash")?.textContent.includes("is saved")`), chromedp.Focus(chromedp.CSS("#submit")), tab("a.danger"), browser.Press(kb.Enter),
		ready("#delete-title + p b"), chromedp.Focus(chromedp.CSS(".bar button")), tab("button.danger"), browser.Press(kb.Enter),
		ready("#list-title"),
	)
	if r := s.do(t, http.MethodGet, "/keys", ""); r.status != http.StatusGone {
		t.Errorf("the link has status %d, want a deleted link", r.status)
	}
}

// A browser counts the length of a text in UTF-16, and the server counts characters.
func TestUIAcceptsLongestTitleFromBrowser(t *testing.T) {
	t.Parallel()
	s, b := newUISite(t, "", nil), browser.New(t)
	title := strings.Repeat("\U00020000", 200) // two units of UTF-16 each
	b.Do(
		signIn(s.url, s.bearer(t, "alice", ownScopes)), chromedp.Navigate(s.url+"/admin/new"),
		setValue("#url", "https://go.dev/"), setValue("#alias", "long"), chromedp.Focus(chromedp.CSS("#title")),
		browser.Evaluate(`document.execCommand("insertText", false, "`+title+`")`),
		chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("#link-title")),
	)
	if link, err := s.store.Lookup(t.Context(), "long"); err != nil || link.Title() != title {
		t.Errorf("the title has %d characters, want 200: %v", len([]rune(link.Title())), err)
	}
}
