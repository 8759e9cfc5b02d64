// Package operate implements commands for operators: the health check, the deletion of links, and
// the output of the commands audit and explain.
package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthTimeout is the time limit of a health check. It is below the five seconds that
// docker-compose.yml allows.
const healthTimeout = 3 * time.Second

// CheckHealth returns an error unless the program with the admin listener at addr is ready. addr
// is [host]:port. The check takes at most 3 s.
func CheckHealth(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody) //nolint:gosec // the address is a setting of the operator
	if err != nil {
		return err
	}
	// The client uses no proxy (HTTP_PROXY), because a proxy may reach another program at this address, or no program.
	direct := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := direct.Do(req) //nolint:gosec // the address is a setting of the operator
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only the status matters
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s answered %s", req.URL, resp.Status)
	}
	return nil
}

// deleteTimeout is the time limit for the deletion or the erasure of one link.
const deleteTimeout = 10 * time.Second

// Delete calls the function remove for each code. This function must turn the link with the code into a tombstone.
// Delete writes each deleted code to out and returns the deleted codes. If a deletion fails, Delete continues with the
// next code. The error names every code that was not deleted.
func Delete(ctx context.Context, remove func(ctx context.Context, code string) error, codes []string, out io.Writer) (deleted []string, err error) {
	return each(ctx, "delete", remove, codes, out)
}

// Erase calls the function erase for each code, in the same way as Delete. This function must erase the remaining data of
// the link with the code.
func Erase(ctx context.Context, erase func(ctx context.Context, code string) error, codes []string, out io.Writer) error {
	_, err := each(ctx, "erase", erase, codes, out)
	return err
}

// each calls do for each code, and returns the codes for which do succeeded.
func each(ctx context.Context, verb string, do func(context.Context, string) error, codes []string, out io.Writer) (done []string, err error) {
	var errs []error
	for _, code := range codes {
		if err := limited(ctx, do, code); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", verb, code, err))
			continue
		}
		done = append(done, code)
		if _, err := fmt.Fprintf(out, "%sd %s\n", verb, code); err != nil {
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}

func limited(ctx context.Context, do func(context.Context, string) error, code string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return do(ctx, code)
}
