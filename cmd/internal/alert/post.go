package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// post sends an alert once. Its error does not contain the URL.
func (a *Alerter) post(ctx context.Context, next *alert) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "keypool")
	resp, err := a.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()       // only the status matters
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10) // so that the connection can be reused
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered %d, want 2xx", resp.StatusCode)
	}
	return nil
}

// withoutURL strips the URL that an error of the HTTP client quotes: that of a webhook often is
// its password.
func withoutURL(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return quoting.Err
	}
	return err
}
