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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only the status matters
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s answered %s", req.URL, resp.Status)
	}
	return nil
}

// deleteTimeout is the time limit for the deletion of one link.
const deleteTimeout = 10 * time.Second

// Delete calls the function remove for each code. This function must turn the link with the code into a tombstone.
// Delete writes each deleted code to out. If a deletion fails, Delete continues with the next code. The error names
// every code that was not deleted.
func Delete(ctx context.Context, remove func(ctx context.Context, code string) error, codes []string, out io.Writer) error {
	var errs []error
	for _, code := range codes {
		if err := deleteOne(ctx, remove, code); err != nil {
			errs = append(errs, fmt.Errorf("delete %q: %w", code, err))
			continue
		}
		if _, err := fmt.Fprintf(out, "deleted %s\n", code); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func deleteOne(ctx context.Context, remove func(context.Context, string) error, code string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return remove(ctx, code)
}
