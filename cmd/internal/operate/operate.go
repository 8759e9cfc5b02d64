// Package operate has the operators' commands that need no wiring: the health check, the deletion
// of links and the report of an audit.
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

// healthTimeout bounds a health check, below the five seconds that docker-compose.yml allows.
const healthTimeout = 3 * time.Second

// CheckHealth fails unless the program whose admin listener is at addr, [host]:port, is ready. It
// takes 3 s at most.
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

// Links are the links that Delete deletes from.
type Links interface {
	// Delete makes the link with this code a tombstone. It fails when no link has the code.
	Delete(ctx context.Context, code string, at time.Time) error
}

// deleteTimeout bounds the deletion of one link.
const deleteTimeout = 10 * time.Second

// Delete makes tombstones of the links with these codes, and names each on out. A code that
// cannot be deleted does not keep the others from being deleted; the error names all of them.
func Delete(ctx context.Context, links Links, codes []string, out io.Writer) error {
	var errs []error
	for _, code := range codes {
		if err := deleteOne(ctx, links, code); err != nil {
			errs = append(errs, fmt.Errorf("delete %q: %w", code, err))
			continue
		}
		if _, err := fmt.Fprintf(out, "deleted %s\n", code); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func deleteOne(ctx context.Context, links Links, code string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return links.Delete(ctx, code, time.Now().UTC())
}
