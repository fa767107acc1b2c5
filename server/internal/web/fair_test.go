package web

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of pipes whose clients have any address.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) { return <-p.conns, nil }
func (p pipes) Close() error              { return nil }
func (p pipes) Addr() net.Addr            { return insideAddr("server") }

type addressed struct {
	net.Conn
	addr insideAddr
}

func (a addressed) RemoteAddr() net.Addr { return a.addr }

// Whoever has most connections loses the one that is silent for longest to whoever comes; others lose none.
func TestFair(t *testing.T) {
	under := pipes{make(chan net.Conn, 1)}
	l := Fair(under, 4)
	ticks := time.Now()
	dial := func(addr string) (client net.Conn, server *fairConn) {
		client, far := net.Pipe()
		t.Cleanup(func() { client.Close() })
		under.conns <- addressed{far, insideAddr(addr)}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server = c.(*fairConn)
		ticks = ticks.Add(time.Second)
		server.last.Store(ticks.UnixNano())
		return client, server
	}
	open := func(c net.Conn) bool {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return !errors.Is(err, io.EOF)
	}
	prober, _ := dial("10.0.0.9:1")
	var greedy [3]net.Conn
	var servers [3]*fairConn
	for i := range greedy {
		greedy[i], servers[i] = dial("10.0.0.1:7")
	}
	servers[0].last.Store(ticks.Add(time.Second).UnixNano()) // the second is silent for longest
	other, ended := dial("10.0.0.2:5")
	for name, c := range map[string]struct {
		conn net.Conn
		want bool
	}{"the oldest of all": {prober, true}, "the newcomer": {other, true}, "one that is in use": {greedy[0], true},
		"the silent one": {greedy[1], false}, "another": {greedy[2], true}} {
		if got := open(c.conn); got != c.want {
			t.Errorf("%s: open: %t", name, got)
		}
	}
	ended.Close() // and twice is no harm
	ended.Close()
	dial("10.0.0.3:5")
	if !open(greedy[0]) || !open(greedy[2]) || !open(prober) {
		t.Error("one gave way although another had ended")
	}
}

// What connections bring together is read at the rate, however many they are.
func TestFairPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns, each = 8, 4 << 20
		under := pipes{make(chan net.Conn, 1)}
		l := Fair(under, conns)
		begun := time.Now()
		var all sync.WaitGroup
		for range conns {
			client, far := net.Pipe()
			under.conns <- addressed{far, "10.0.0.1:7"}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				client.Write(make([]byte, each))
				client.Close()
			})
			all.Go(func() {
				if n, err := io.Copy(io.Discard, server); n != each || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
				server.Close()
			})
		}
		all.Wait()
		want := float64(conns*each) / float64(runtime.NumCPU()*bytesPerProcessor)
		if got := time.Since(begun).Seconds(); got < want*0.9 || got > want*1.1 {
			t.Errorf("%.3f s, want %.3f", got, want)
		}
	})
}
