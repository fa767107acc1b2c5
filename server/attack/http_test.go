package attack

// The HTTP port: connections that say little, texts that are more than they look, WebSockets, logins.

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var httpAttacks = []attack{
	{row: 16, name: "HTTP headers that come a byte at a time",
		run: func(ctx context.Context, a *attempt) {
			crawl(ctx, a, 400, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("a", 1000))
		}},
	{row: 16, name: "HTTP bodies that come a byte at a time",
		run: func(ctx context.Context, a *attempt) {
			crawl(ctx, a, 400, post(pb.InspectionService_Reduce_FullMethodName, 1<<20, "{"+strings.Repeat(" ", 1000)))
		}},
	{row: 16, name: "connections to the HTTP port that say nothing",
		run: func(ctx context.Context, a *attempt) { crawl(ctx, a, 2000, "") }},
	{row: 16, name: "connections to the gRPC port that say nothing", run: silentHTTP2},
	{row: 16, name: "files of the console that nobody reads",
		run: func(ctx context.Context, a *attempt) {
			crawl(ctx, a, 400, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 50))
		}},
	{row: 16, name: "JSON of millions of empty regions", run: func(ctx context.Context, a *attempt) {
		postJSON(ctx, a, 4, `{"inspection":{"regionSet":{"regions":[`+strings.Repeat("{},", 5<<20)+`{}]}}}`)
	}},
	// p99 is 44 to 120 ms on two quiet cores, of 40, p50 as alone: four bodies of 15 MB at a time.
	{row: 16, name: "JSON that is nested deeply", run: func(ctx context.Context, a *attempt) {
		postJSON(ctx, a, 4, strings.Repeat(`{"inspection":`, 1<<20))
	}},
	// p99 is 38 to 60 ms on two quiet cores, of 40, p50 as alone: four bodies of 17 MB at a time.
	{row: 16, name: "JSON of numbers without an end", run: func(ctx context.Context, a *attempt) {
		postJSON(ctx, a, 4, `{"inspection":{"regionSet":{"regions":[{"rings":[{"xy":[`+strings.Repeat("1", 16<<20)+`]}]}]}}}`)
	}},
	{row: 16, name: "floods over WebSockets", run: socketFloods},
	{row: 16, name: "floods of logins", apart: true, run: loginFloods},
}

// elsewhere dials from another address than that of the well-behaved clients, as whoever attacks over a network has
// one.
var elsewhere = net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

// attacker calls from there.
var attacker = &http.Client{Transport: &http.Transport{DialContext: elsewhere.DialContext, MaxIdleConnsPerHost: 100}}

// post is the head of a POST of n bytes of JSON, and what follows it.
func post(path string, n int, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, n, body)
}

// alive asks whether the server is alive, as supervisors do, until ctx ends. They give a server some seconds.
func alive(ctx context.Context, a *attempt, p *process) {
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		res, err := client.Get("http://" + p.web + "/healthz")
		if err != nil {
			a.tooSlow("/healthz: no answer in 3 s")
		} else {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				a.problem("/healthz: %d", res.StatusCode)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// crawl opens so many connections and sends over each what is given: at once what is longer than a kilobyte, and from
// there on a byte each tenth of a second. It opens again what the server closes, and reads nothing.
func crawl(ctx context.Context, a *attempt, connections int, text string) {
	var all sync.WaitGroup
	all.Go(func() { alive(ctx, a, a.process) })
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				crawlOnce(ctx, a.web, text)
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
}

func crawlOnce(ctx context.Context, addr, text string) {
	conn, err := elsewhere.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.(*net.TCPConn).SetReadBuffer(4096)
	now := max(len(text)-1000, 0)
	if _, err := io.WriteString(conn, text[:now]); err != nil {
		return
	}
	for _, c := range []byte(text[now:]) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := conn.Write([]byte{c}); err != nil {
			return
		}
	}
	<-ctx.Done()
}

// silentHTTP2 opens connections to the gRPC port and makes no call.
func silentHTTP2(ctx context.Context, a *attempt) {
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			var mine []*wire
			for range 50 {
				if ctx.Err() == nil {
					mine = append(mine, dial(a, a.addr, 1<<20))
				}
			}
			<-ctx.Done()
			for _, w := range mine {
				w.close()
			}
		})
	}
	all.Wait()
}

// postJSON sends a text over and over, over so many connections.
func postJSON(ctx context.Context, a *attempt, connections int, text string) {
	var all sync.WaitGroup
	all.Go(func() { alive(ctx, a, a.process) })
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost,
					"http://"+a.web+pb.InspectionService_Reduce_FullMethodName, strings.NewReader(text))
				if err != nil {
					a.problem("%v", err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := attacker.Do(req)
				if err != nil {
					continue // closed for what it sent
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK || res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
					a.problem("a text that can't be used: HTTP %d", res.StatusCode)
				}
			}
		})
	}
	all.Wait()
}

// frame is a frame of a WebSocket, masked with zeros.
func socketFrame(kind byte, payload []byte) []byte {
	out := []byte{0x80 | kind}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	return append(append(out, 0, 0, 0, 0), payload...)
}

// socketFloods opens sockets, more than there may be, and sends each kind of frames over them as fast as it can: pings,
// small messages, large ones, and pieces of a message that never ends. It reads nothing.
func socketFloods(ctx context.Context, a *attempt) {
	const text, binaryMessage, ping = 1, 2, 9
	open := marshal(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspect(rectangle("", 8, 8))}})
	frame := marshal(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: grayFrame(8, 8)}})
	piece := socketFrame(binaryMessage, make([]byte, 60_000))
	piece[0] &^= 0x80
	more := socketFrame(0, make([]byte, 60_000))
	more[0] &^= 0x80
	kinds := [][2][]byte{
		{socketFrame(ping, nil), socketFrame(ping, make([]byte, 125))},
		{socketFrame(binaryMessage, open), socketFrame(binaryMessage, frame)},
		{socketFrame(binaryMessage, open), socketFrame(binaryMessage, make([]byte, 3<<20))},
		{piece, more},
	}
	var all sync.WaitGroup
	all.Go(func() { alive(ctx, a, a.process) })
	for i := range 80 {
		all.Go(func() {
			for ctx.Err() == nil {
				socketOnce(ctx, a.web, kinds[i%len(kinds)])
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
}

func socketOnce(ctx context.Context, addr string, send [2][]byte) {
	conn, err := elsewhere.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	fmt.Fprintf(conn, "GET /socket%s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: polyscan\r\nSec-WebSocket-Key: %s\r\n\r\n",
		pb.InspectionService_StreamFrames_FullMethodName, base64.StdEncoding.EncodeToString(make([]byte, 16)))
	line, err := bufio.NewReaderSize(conn, 256).ReadString('\n')
	if err != nil || !strings.Contains(line, " 101 ") {
		return
	}
	if _, err := conn.Write(send[0]); err != nil {
		return
	}
	for ctx.Err() == nil {
		if _, err := conn.Write(send[1]); err != nil {
			return
		}
	}
}

// loginFloods tries tokens.
func loginFloods(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice")
	lines := len(p.log.String())
	var all sync.WaitGroup
	all.Go(func() { alive(ctx, a, p) })
	for i := range 16 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.web+"/console/login",
					strings.NewReader(fmt.Sprintf(`{"token":"guess-%d-%d"}`, i, n)))
				if err != nil {
					a.problem("%v", err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := attacker.Do(req)
				if err != nil {
					continue
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					a.problem("a guess was right")
				}
			}
		})
	}
	all.Wait()
	if grown := len(p.log.String()) - lines; float64(grown) > logRate*attackTime.Seconds() {
		a.problem("%d kB of log in %v", grown/1000, *attackTime)
	}
	if _, err := p.login("alice"); err != nil && !strings.Contains(err.Error(), "429") { // its network has tried too much
		a.problem("a login after all: %v", err)
	}
}

// login logs in, and returns who the server says that is.
func (p *process) login(token string) (string, error) {
	res, err := http.Post("http://"+p.web+"/console/login", "application/json",
		strings.NewReader(fmt.Sprintf(`{"token":%q}`, token)))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", res.StatusCode, b)
	}
	return string(b), err
}
