package mqtt

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

func TestUsersAndTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	addr := startBrokerWith(t, new(auth.Hook), &auth.Options{Ledger: &auth.Ledger{
		Auth: auth.AuthRules{{Username: "gateway", Password: "secret", Allow: true}},
	}}, listeners.Config{ID: "tls", Address: "127.0.0.1:0", TLSConfig: &tls.Config{Certificates: web.TLS.Certificates}})

	for _, c := range []struct {
		url, password string
		tls           *tls.Config
		want          string // of the error; empty: it connects
	}{
		{"mqtts://" + addr, "secret", &tls.Config{RootCAs: pool}, ""},
		{"mqtts://" + addr, "wrong", &tls.Config{RootCAs: pool}, "refused the connection: reason 0x86"},
		{"mqtts://" + addr, "secret", &tls.Config{RootCAs: pool, ServerName: "other"}, "certificate is valid for"},
		{"mqtts://" + addr, "secret", nil, "unknown authority"},
		{"mqtt://" + addr, "secret", nil, "EOF"},
	} {
		st, _ := startStation(t, station.Config{})
		cl, err := NewPlain(Config{Brokers: []string{c.url}, ClientID: "g", User: "gateway", Password: c.password,
			TLS: c.tls},
			"p", []*station.Station{st}, quiet)
		stop := gateway(t, cl, err)
		eventually(t, c.url+" "+c.want, func() bool {
			s := cl.Status()
			return s.Connected && c.want == "" || !s.Connected && s.Err != nil && c.want != ""
		})
		if s := cl.Status(); c.want != "" && !strings.Contains(s.Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.url, s.Err, c.want)
		}
		stop()
	}
}

// Brokers are tried in turn.
func TestNextBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	st, _ := startStation(t, station.Config{})
	cl, err := NewPlain(Config{Brokers: []string{"mqtt://" + dead, "mqtt://" + startBroker(t)}, ClientID: "g"}, "p",
		[]*station.Station{st}, quiet)
	gateway(t, cl, err)
	eventually(t, "connected", func() bool { return cl.Status().Connected })
}

// pipe is a connection that reads from a buffer.
type pipe struct {
	net.Conn
	in     io.Reader
	closed bool
}

func (p *pipe) Read(b []byte) (int, error)       { return p.in.Read(b) }
func (p *pipe) Close() error                     { p.closed = true; return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
func (p *pipe) Write([]byte) (int, error)        { return 0, io.ErrShortWrite }

func TestConnBoundsPackets(t *testing.T) {
	header := func(length int) []byte { return binary.AppendUvarint([]byte{0x30}, uint64(length)) }
	for _, c := range []struct {
		in   []byte
		says string
	}{
		{append(header(maxPacket), make([]byte, maxPacket)...), "EOF"},
		{append(header(maxPacket+1), make([]byte, maxPacket+1)...), "or more"},
		{header(1<<28 - 1), "or more"},
		{[]byte{0x30, 0x80, 0x80, 0x80, 0x80, 0x01}, "four bytes"},
		{[]byte{0x30, 0x80, 0x00, 0x30}, "EOF"},
	} {
		k := newConn(&pipe{in: bytes.NewReader(c.in)})
		_, err := io.ReadAll(onlyReader{k})
		good := err != nil && strings.Contains(err.Error(), c.says)
		if c.says == "EOF" {
			good = err == nil
		}
		if !good {
			t.Errorf("%x...: %v, want %s", c.in[:2], err, c.says)
		}
	}
	p := &pipe{}
	k := newConn(p)
	k.Lock()
	k.Write([]byte{1})
	k.Unlock()
	if k.failed() == nil || !p.closed {
		t.Error("a packet that was not taken: no error")
	}
}

type onlyReader struct{ io.Reader }

// FuzzConn: whatever a broker sends, the client library reads packets and nothing else, none of them larger than it may
// be, and it doesn't panic.
func FuzzConn(f *testing.F) {
	f.Add([]byte{0x20, 0x03, 0x00, 0x00, 0x00}, uint8(1))
	f.Add([]byte{0x30, 0x06, 0x00, 0x01, 'a', 0x00, 'x', 'y', 0xD0, 0x00}, uint8(3))
	f.Add([]byte{0x32, 0xFF, 0xFF, 0xFF, 0x7F, 1, 2}, uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		k := newConn(&pipe{in: iotestChunks{bytes.NewReader(in), int(chunk%16) + 1}})
		for {
			p, err := packets.ReadPacket(k)
			if err != nil {
				break
			}
			if n := p.PacketType(); n == "" {
				t.Fatal("a packet without a type")
			}
		}
	})
}

type iotestChunks struct {
	r io.Reader
	n int
}

func (c iotestChunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }
