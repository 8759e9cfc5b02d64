package ui

import (
	"net/http"

	"keypool/shortener/token"
)

// pageError is an error that only the pages of this package have.
type pageError struct {
	status        int
	title, detail string
}

func (e *pageError) Error() string { return e.title + ": " + e.detail }

var (
	errNoSession = &pageError{http.StatusForbidden, "You are not signed in",
		"Your session has ended. Sign in in another tab, and then reload this page: the browser sends your input again."}
	errForeign = &pageError{http.StatusForbidden, "The form may come from another site",
		"This service cannot confirm that one of its own pages sent the form. Open the form on this site and send it again."}
	errForm   = &pageError{http.StatusBadRequest, "The form is malformed", "Open the page again and repeat the input."}
	errNoPage = &pageError{http.StatusNotFound, "There is no such page", "There is nothing at this path."}
)

// formUsed returns the error for a form that has already created a link with other values. The parameter link names this
// link. The error repeats the name, because the person may not have received the answer when the form was first sent.
func formUsed(link string) error {
	return &pageError{http.StatusConflict, "The form was used before",
		"This form has already created " + link + " with other values. Send the form again to create another link."}
}

// otherPerson returns the error for a form that the server sent to another person. The tabs of a browser share one session,
// so a sign-in with another token in one tab also applies to a form that is open in another tab.
func otherPerson(p person) error {
	return &pageError{http.StatusConflict, "You are signed in with another token",
		"This browser has signed in with the token " + p.Name() + " since it opened the form. Send the form again to create a link of this token."}
}

// lacks returns the error for a person whose token does not have a scope.
func lacks(p person, scope token.Scopes) error {
	return &pageError{http.StatusForbidden, "Your token does not permit this",
		"The token " + p.token.Name + " does not have the scope " + scope.String() + ". The operator of this service can create another token."}
}
