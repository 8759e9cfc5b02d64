package redispool

import (
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keypool/internal/testenv"
	"keypool/kgs"
)

// status opens a pool at a URL and returns the error of Status.
func status(t *testing.T, rawURL string) error {
	t.Helper()
	p, _ := newTestPool(t, openURL(t, rawURL), "holder")
	_, err := p.Status(t.Context())
	return err
}

// The parameters of a Redis URL name the files with the certificates and the private key.
func TestRedisClientUsesCertificateFilesOfURL(t *testing.T) {
	t.Parallel()
	own, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	addr := testenv.StartRedisTLS(t, own)
	cert, key := own.Issue()
	files := url.Values{tlsCA: {own.CA}, tlsCert: {cert}, tlsKey: {key}}
	if err := status(t, "rediss://"+addr+"?"+files.Encode()); !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("with all certificates: %v, want ErrNoEpoch of a new pool", err)
	}
	var certificate *tls.CertificateVerificationError
	for name, params := range map[string]url.Values{
		"the authorities of the system": {tlsCert: {cert}, tlsKey: {key}},
		"another authority":             {tlsCA: {other.CA}, tlsCert: {cert}, tlsKey: {key}},
	} {
		if err := status(t, "rediss://"+addr+"?"+params.Encode()); !errors.As(err, &certificate) {
			t.Errorf("with %s: %v, want an error of the server's certificate", name, err)
		}
	}
	if err := status(t, "rediss://"+addr+"?"+url.Values{tlsCA: {own.CA}}.Encode()); err == nil || errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("without a certificate of the client: %v, want an error", err)
	}
}

// A program uses a renewed certificate without a restart.
func TestRedisClientReadsCertificateForEachConnection(t *testing.T) {
	t.Parallel()
	own, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	addr := testenv.StartRedisTLS(t, own)
	cert, key := other.Issue()
	client := openURL(t, "rediss://"+addr+"?"+url.Values{tlsCA: {own.CA}, tlsCert: {cert}, tlsKey: {key}}.Encode())
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("Redis accepts a certificate of another authority, so this test proves nothing")
	}
	newCert, newKey := own.Issue()
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Ping with the renewed certificate: %v", err)
	}
}

func TestErrorOfParseURLContainsPathOfUnusableCertificateFile(t *testing.T) {
	t.Parallel()
	a := testenv.NewAuthority(t)
	cert, key := a.Issue()
	_, otherKey := a.Issue()
	const missing = "/no/such/file"
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		params      url.Values
		param, path string
	}{
		"a named pipe":           {url.Values{tlsCA: {pipe}}, tlsCA, pipe},
		"no file of authorities": {url.Values{tlsCA: {missing}}, tlsCA, missing},
		"no certificate in it":   {url.Values{tlsCA: {key}}, tlsCA, key},
		"no certificate":         {url.Values{tlsCert: {missing}, tlsKey: {key}}, tlsCert, missing},
		"no key":                 {url.Values{tlsCert: {cert}, tlsKey: {missing}}, tlsKey, missing},
		"key of another":         {url.Values{tlsCert: {cert}, tlsKey: {otherKey}}, tlsCert, cert},
	} {
		_, err := ParseURL("rediss://user:hunter2@host?" + test.params.Encode())
		var file *FileError
		if !errors.As(err, &file) || file.Param != test.param || file.Path != test.path || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want a FileError of %s=%s without the password", name, err, test.param, test.path)
		}
	}
	for _, text := range []string{"redis://h?tls_ca=" + a.CA, "rediss://h?tls_cert=" + cert, "rediss://h?tls_key=" + key} {
		if _, err := ParseURL(text); err == nil || !strings.Contains(err.Error(), "tls_") {
			t.Errorf("%s: %v, want an error that names the parameters", text, err)
		}
	}
}
