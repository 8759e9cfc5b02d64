package ui

import (
	"net/http"
	"net/url"
	"strings"

	"keypool/web/internal/reply"
)

// session returns the Session of the listener. It fails if people do not sign in on this listener.
func (u *UI) session() (Session, error) {
	s, ok := u.Entrance.(Session)
	if !ok {
		return Session{}, errNoPage
	}
	return s, nil
}

// signInPath returns the path of the sign-in page, with a parameter for the page that the browser loads after the
// sign-in. This is the page that r requested, or the list if the function local does not accept the path of that page.
func (u *UI) signInPath(r *http.Request) string {
	return u.Base + "/sign-in?" + url.Values{"to": {local(r.URL.RequestURI(), u.Base)}}.Encode()
}

func (u *UI) askSignIn(x *exchange) error {
	if _, err := u.session(); err != nil {
		return err
	}
	u.sendSignIn(x, http.StatusOK, x.r.URL.Query().Get("to"), nil)
	return nil
}

// sendSignIn answers with the page for signing in. After the sign-in, the browser loads the page at the path target.
func (u *UI) sendSignIn(x *exchange, status int, target string, p *reply.Problem) {
	u.send(x, status, u.pages.signIn, &view{Title: "Sign in", To: local(target, u.Base), Problem: p})
}

// signIn checks the token of the form and begins a session. A token that is not valid counts as a miss of the address.
func (u *UI) signIn(x *exchange) error {
	s, err := u.session()
	if err == nil {
		err = u.Limits.Admit(x.r)
	}
	if err != nil {
		return err
	}
	bearer, to := strings.TrimSpace(x.r.PostForm.Get("token")), x.r.PostForm.Get("to")
	_, err = s.Authenticate(x.r.Context(), bearer)
	if unknown(err) {
		u.Limits.Missed(x.r)
		u.sendSignIn(x, http.StatusForbidden, to, &reply.Problem{Detail: "This is no valid token. It may be mistyped, renewed, expired or revoked."})
		return nil
	}
	if err != nil {
		return unavailable(err)
	}
	http.SetCookie(x.w, s.cookie(x.r, u.Base, bearer))
	return u.redirect(x, local(to, u.Base))
}

// signOut ends the session of this browser. The token stays valid.
func (u *UI) signOut(x *exchange) error {
	s, err := u.session()
	if err != nil {
		return err
	}
	c := s.cookie(x.r, u.Base, "") //nolint:gosec // without HTTPS, browsers would refuse a cookie that is Secure
	c.MaxAge = -1
	http.SetCookie(x.w, c)
	return u.redirect(x, u.Base+"/sign-in")
}
