package redispool

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// The parameters of a URL that name PEM files for TLS.
const (
	tlsCA   = "tls_ca"   // certificates of the authorities that the client trusts; default: the authorities of the system
	tlsCert = "tls_cert" // certificate of the client, followed by its intermediate certificates
	tlsKey  = "tls_key"  // private key of the client
)

// FileError means that a file that a URL names cannot be used. The text of the error contains the name of the
// parameter and the path, but no content of the file.
type FileError struct {
	Param string // tls_ca, tls_cert or tls_key
	Path  string
	Err   error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s=%s: %v", e.Param, e.Path, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// tlsFiles holds the paths of the PEM files, by parameter.
type tlsFiles map[string]string

// config returns the settings of TLS, or nil if enabled is false. It reads all files, so that a program
// with an unusable file fails when it starts, and not at its first connection.
func (f tlsFiles) config(enabled bool) (*tls.Config, error) {
	if !enabled {
		if len(f) > 0 {
			return nil, errors.New("tls_ca, tls_cert and tls_key need the scheme rediss://")
		}
		return nil, nil //nolint:nilnil // a client without a configuration uses no TLS
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if path, ok := f[tlsCA]; ok {
		text, err := f.read(tlsCA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, &FileError{tlsCA, path, errors.New("it contains no certificate in PEM form")}
		}
	}
	if f[tlsCert] == "" && f[tlsKey] == "" {
		return config, nil
	}
	if _, err := f.certificate(); err != nil {
		return nil, err
	}
	// The files are read again for each connection, so that a renewed certificate needs no restart.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.certificate() }
	return config, nil
}

// certificate reads the certificate of the client and its key.
func (f tlsFiles) certificate() (*tls.Certificate, error) {
	if f[tlsCert] == "" || f[tlsKey] == "" {
		return nil, errors.New("tls_cert and tls_key must be set together")
	}
	cert, err := f.read(tlsCert)
	if err != nil {
		return nil, err
	}
	key, err := f.read(tlsKey)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &FileError{tlsCert, f[tlsCert], fmt.Errorf("with tls_key=%s: %w", f[tlsKey], err)}
	}
	return &pair, nil
}

func (f tlsFiles) read(param string) (text []byte, err error) {
	info, err := os.Stat(f[param])
	if err == nil && !info.Mode().IsRegular() { // reading a named pipe would block
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		text, err = os.ReadFile(f[param])
	}
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the text of a PathError would repeat the path
		}
		return nil, &FileError{param, f[param], err}
	}
	return text, nil
}
