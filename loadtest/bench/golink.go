package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/testbed"
)

// A rival is a shortener of others that is measured beside this one. It is golink, which
// keeps its links in SQLite too; `make bench` puts it beside our programs where it can be
// had.
const rival = "golink"

// rivalCode is that of a link that startGolink makes.
const rivalCode = "alias"

// startGolink starts golink with one link in it, and returns its URL; "" where the program
// is not there. In its dev mode it asks nobody who the client is, and is otherwise itself.
func (r *run) startGolink(ctx context.Context, bed *testbed.Bed) (url string, err error) {
	path, err := filepath.Abs(r.program(rival))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		r.Log(rival + " is not measured: there is no " + path)
		return "", nil
	}
	addr, err := machine.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	url = "http://" + addr
	link := exchange{
		method: http.MethodPost, url: url + "/", status: http.StatusOK, body: "short=" + rivalCode + "&long=" + target,
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Golink": {"1"}},
	}
	_, err = bed.Other(ctx, machine.Program{
		Path: path, Args: []string{"-dev-listen", addr, "-sqlitedb", "golink.db"},
		Env: []string{"HOME=" + r.dir}, URL: url, Ping: up(link),
	})
	if err != nil {
		return "", err
	}
	return url, visit(url, rivalCode).try(ctx)
}

// golinkCreations is golink under creations; each run has codes of its own.
func (r *run) golinkCreations(url string) subject {
	return subject{name: rival, unit: rate, measure: func(ctx context.Context) (float64, error) {
		tally, err := r.load(ctx, wrk{url: url + "/", script: "golink", args: []string{rand.Text(), target}})
		return tally.perSecond(), err
	}}
}
