package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keypool/internal/testenv/machine"
)

// Authority is a certificate authority of one test. Its files are in a directory of the test.
type Authority struct {
	CA string // path of the PEM file with the certificate of the authority

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new random key, which no other test trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.CA = writePEM(t, "ca.pem", "CERTIFICATE", a.sign(a.cert, a.key))
	return a
}

// Issue returns the paths of a certificate for the loopback address, and of its key. A server and a
// client can use the certificate.
func (a *Authority) Issue() (cert, key string) {
	a.t.Helper()
	own := newKey(a.t)
	signed := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, own)
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return writePEM(a.t, "cert.pem", "CERTIFICATE", signed), writePEM(a.t, "key.pem", "PRIVATE KEY", text)
}

func (a *Authority) sign(cert *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	signed, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, name, kind string, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// StartRedisTLS starts a Redis with a certificate of an authority. The server accepts only clients
// with a certificate of the same authority. It also has a port without TLS. StartRedisTLS returns
// the address of the port with TLS.
func StartRedisTLS(t testing.TB, a *Authority) (addr string) {
	t.Helper()
	addr, err := machine.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := a.Issue()
	StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.CA)
	return addr
}
