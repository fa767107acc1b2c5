package opcua

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
	"golang.org/x/crypto/bcrypt"
)

// Trust is a folder with the certificates that are accepted, DER or PEM: clients' own, and authorities' that issued
// theirs. It is read again at each new channel, so that a certificate is trusted, or no longer, without a restart.
type Trust struct{ Folder string }

const maxTrusted = 1000 // files that are read

// check returns the certificate of a client, the first of chain, or why it is not accepted.
func (t *Trust) check(chain []byte) (*x509.Certificate, ua.StatusCode) {
	if len(chain) > maxChunk/4 {
		return nil, ua.StatusBadCertificateInvalid
	}
	certs, err := x509.ParseCertificates(chain)
	if err != nil || len(certs) == 0 {
		return nil, ua.StatusBadCertificateInvalid
	}
	cert := certs[0]
	now := time.Now()
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return nil, ua.StatusBadCertificateTimeInvalid
	}
	trusted, err := readCertificates(t.Folder)
	if err != nil {
		return nil, ua.StatusBadCertificateUntrusted
	}
	authorities, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		if bytes.Equal(c.Raw, cert.Raw) {
			return cert, ua.StatusOK
		}
		if c.IsCA {
			authorities.AddCert(c)
		}
	}
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, ua.StatusBadCertificateUntrusted
	}
	return cert, ua.StatusOK
}

// readCertificates returns the certificates of a folder, of which none is nothing: with "" nobody is trusted.
func readCertificates(folder string) ([]*x509.Certificate, error) {
	if folder == "" {
		return nil, nil
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, f := range files[:min(len(files), maxTrusted)] {
		if !f.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			continue
		}
		if block, _ := pem.Decode(b); block != nil {
			b = block.Bytes
		}
		if c, err := x509.ParseCertificate(b); err == nil {
			certs = append(certs, c)
		}
	}
	return certs, nil
}

// LoadIdentity reads the server's certificate (DER or PEM) and its RSA key (PEM). Where neither file is there, it makes
// both, for applicationURI and hosts, valid for ten years: an OPC UA client is shown the certificate once, and trusts
// it from then on.
func LoadIdentity(certFile, keyFile, applicationURI string, hosts []string) (cert []byte, key *rsa.PrivateKey,
	err error) {
	cert, certErr := os.ReadFile(certFile)
	text, keyErr := os.ReadFile(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return newIdentity(certFile, keyFile, applicationURI, hosts)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, nil, err
	}
	if block, _ := pem.Decode(cert); block != nil {
		cert = block.Bytes
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", certFile, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil, fmt.Errorf("%s: no PEM", keyFile)
	}
	var any any
	if any, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
		if any, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
		}
	}
	key, ok := any.(*rsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s: a key of type %T, want RSA", keyFile, any)
	}
	if public, ok := parsed.PublicKey.(*rsa.PublicKey); !ok || !public.Equal(&key.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", keyFile, certFile)
	}
	if len(parsed.URIs) == 0 || parsed.URIs[0].String() != applicationURI {
		return nil, nil, fmt.Errorf("%s: the certificate is not for the application URI %s, which clients compare",
			certFile, applicationURI)
	}
	return parsed.Raw, key, nil
}

func newIdentity(certFile, keyFile, applicationURI string, hosts []string) ([]byte, *rsa.PrivateKey, error) {
	uri, err := url.Parse(applicationURI)
	if err != nil {
		return nil, nil, fmt.Errorf("application URI: %w", err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, nil, err
	}
	id := sha256.Sum256(x509.MarshalPKCS1PublicKey(&key.PublicKey))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "plcgateway", Organization: []string{"polyscan"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment | x509.KeyUsageKeyEncipherment |
			x509.KeyUsageDataEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, SubjectKeyId: id[:20], URIs: []*url.URL{uri},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(certFile), 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(keyFile), 0o700); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		0o600); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644); err != nil {
		return nil, nil, err
	}
	return cert, key, nil
}

// Users are names and their passwords' bcrypt hashes.
type Users struct {
	hashes map[string][]byte
	// slow makes room for few logins at a time: bcrypt is slow on purpose, and a client that guesses is not to take the
	// processor from the line.
	slow sync.Mutex
}

// LoadUsers reads a file of lines NAME:HASH, as "htpasswd -B" writes them. Empty lines and those with # are skipped.
func LoadUsers(file string) (*Users, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	u := &Users{hashes: map[string][]byte{}}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s:%d: no NAME:HASH", file, i+1)
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("%s:%d: %s has no bcrypt hash, as htpasswd -B writes it: %w", file, i+1, name, err)
		}
		if u.hashes[name] != nil {
			return nil, fmt.Errorf("%s:%d: %s is there twice", file, i+1, name)
		}
		u.hashes[name] = []byte(hash)
	}
	if len(u.hashes) == 0 {
		return nil, fmt.Errorf("%s: no users", file)
	}
	return u, nil
}

// nobody is compared with where a name is unknown, so that the time does not tell which names there are.
var nobody = []byte("$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy")

func (u *Users) check(name string, password []byte) bool {
	if u == nil {
		return false
	}
	u.slow.Lock()
	defer u.slow.Unlock()
	hash, known := u.hashes[name]
	if !known {
		hash = nobody
	}
	return bcrypt.CompareHashAndPassword(hash, password) == nil && known
}
