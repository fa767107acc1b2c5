//go:build linux

package main

// The line once more, with a PLC that speaks OPC UA over a network whose connections get stuck half open. PLC_LINE asks
// for it, too.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// network carries connections to one address. Those that are stuck stay open, and nothing comes through any more.
type network struct {
	to    string
	mu    sync.Mutex
	stuck chan struct{} // closed: the connections until now are stuck
	conns []net.Conn
}

func (n *network) serve(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", n.to)
		if err != nil {
			in.Close()
			continue
		}
		n.mu.Lock()
		stuck := n.stuck
		n.conns = append(n.conns, in, out)
		n.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				b := make([]byte, 1<<14)
				for {
					k, err := way[0].Read(b)
					select {
					case <-stuck:
						return // neither end hears of it
					default:
					}
					if err != nil {
						way[1].Close()
						return
					}
					if _, err := way[1].Write(b[:k]); err != nil {
						way[0].Close()
						return
					}
				}
			}()
		}
	}
}

func (n *network) halfOpen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.stuck)
	n.stuck = make(chan struct{})
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
}

func TestLineOPCUA(t *testing.T) {
	addr := freeAddr(t)
	p, limit := newLine(t, "opcua: true, modbus: {unit: 1}",
		"opcua: {listen: '"+addr+"', policies: [None], anonymous: true}\n")
	p.unread = true
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := &network{to: addr, stuck: make(chan struct{})}
	defer n.close()
	go n.serve(l)
	p.run(limit, map[string]func(){"half-open": n.halfOpen}, func(sensor io.Reader, gate io.Writer) error {
		parts := make(chan passing, 1<<16)
		go func() {
			defer close(parts)
			for lines := bufio.NewScanner(sensor); lines.Scan(); {
				parts <- passing{lines.Text(), time.Now()}
			}
		}()
		g := &uaGate{url: "opc.tcp://" + l.Addr().String(), out: &plc{cmd: &simulateCmd{Parts: barrier}, out: gate}}
		for part := range parts {
			g.part(part)
		}
		g.drop()
		return nil
	})
}

// uaGate is a PLC that lets a part through on a whole PASS for its own trigger, in time, and on nothing else.
type uaGate struct {
	url    string
	out    *plc // which prints lines
	client *opcua.Client
	stop   func() // ends the heartbeat
	id     uint32
}

const uaPatience = time.Second // from the barrier to the gate

func (g *uaGate) part(part passing) {
	g.id++
	r := row{part: part, id: g.id, verdict: noLink, reason: "broke"}
	if time.Since(part.at) >= uaPatience {
		r.verdict, r.reason = missed, "passed before its trigger"
	} else if err := g.ask(&r); err != nil {
		fmt.Fprintf(g.out.out, "%s link: %v\n", time.Now().Format(clock), err)
		g.drop()
		// The verdict is what it was if only the acknowledgement failed.
	}
	g.out.line(r)
}

func (g *uaGate) ask(r *row) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if g.client == nil {
		if err := g.connect(ctx); err != nil {
			return err
		}
	}
	begin := time.Now()
	out, err := g.call(ctx, "gate/Handshake", "Trigger", r.id, r.part.name)
	if err != nil {
		return err
	}
	if code, _ := out[1].Value().(int32); code != 0 {
		r.verdict, r.reason = refused, station.Code(-code).String()
		return nil
	}
	r.ack = time.Since(begin)
	for time.Since(begin) < uaPatience {
		v, err := g.read(ctx, "Sequence", "Verdict", "Complement", "TriggerId", "Reason", "FailedRegions", "LatencyUs",
			"SequenceEnd")
		if err != nil {
			return err
		}
		verdict, complement := station.Verdict(v[1].(uint16)), v[2].(uint16)
		if v[0] != v[7] || v[0] == uint32(0) || v[3] != r.id || complement != ^uint16(verdict) {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		r.result, r.latency = time.Since(begin), time.Duration(v[6].(uint32))*time.Microsecond
		r.verdict, r.reason = verdict.String(), station.Reason(v[4].(uint16)).String()
		switch k := v[5].(uint32); {
		case k == 1:
			r.reason += ", 1 region"
		case k > 1:
			r.reason += fmt.Sprintf(", %d regions", k)
		}
		if time.Since(r.part.at) >= uaPatience {
			r.verdict, r.reason = missed, "passed before its answer"
		}
		out, err := g.call(ctx, "gate/Handshake", "Acknowledge", v[0])
		if err == nil && out[0].Value() != int32(0) {
			err = fmt.Errorf("acknowledge: %v", out[0].Value())
		}
		return err
	}
	r.verdict, r.reason = lost, "no answer" // a heartbeat that a busy machine held up, say
	return errors.New("no answer")
}

// connect makes this PLC the holder, as often as it takes until the next part.
func (g *uaGate) connect(ctx context.Context) error {
	c, err := opcua.NewClient(g.url, opcua.AutoReconnect(false), opcua.RequestTimeout(400*time.Millisecond))
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.Connect(short); err != nil {
		return err
	}
	g.client = c
	beating, stop := context.WithCancel(context.Background())
	var heart sync.WaitGroup
	heart.Go(func() {
		for beat := uint16(1); beating.Err() == nil; beat++ {
			_, _ = c.Write(beating, &ua.WriteRequest{NodesToWrite: []*ua.WriteValue{{
				NodeID: ua.NewStringNodeID(3, "gate/Handshake/PlcHeartbeat"), AttributeID: ua.AttributeIDValue,
				Value: &ua.DataValue{EncodingMask: ua.DataValueValue, Value: ua.MustVariant(beat)},
			}}})
			select {
			case <-beating.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	g.stop = func() {
		stop()
		heart.Wait()
	}
	out, err := g.call(ctx, "gate/VisionStateMachine", "SelectModeAutomatic")
	if err == nil && out[0].Value() != int32(0) {
		err = fmt.Errorf("automatic mode: %v", out[0].Value())
	}
	return err
}

func (g *uaGate) drop() {
	if g.client == nil {
		return
	}
	g.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = g.client.Close(ctx) // of a link that is not there
	g.client = nil
}

func (g *uaGate) call(ctx context.Context, object, method string, args ...any) ([]*ua.Variant, error) {
	req := &ua.CallMethodRequest{ObjectID: ua.NewStringNodeID(3, object),
		MethodID: ua.NewStringNodeID(3, object+"/"+method)}
	for _, a := range args {
		req.InputArguments = append(req.InputArguments, ua.MustVariant(a))
	}
	res, err := g.client.Call(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != ua.StatusOK:
		return nil, res.StatusCode
	}
	return res.OutputArguments, nil
}

func (g *uaGate) read(ctx context.Context, names ...string) (values []any, err error) {
	req := &ua.ReadRequest{TimestampsToReturn: ua.TimestampsToReturnNeither}
	for _, n := range names {
		req.NodesToRead = append(req.NodesToRead, &ua.ReadValueID{NodeID: ua.NewStringNodeID(3, "gate/Handshake/"+n),
			AttributeID: ua.AttributeIDValue, DataEncoding: &ua.QualifiedName{}})
	}
	res, err := g.client.Read(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, r := range res.Results {
		if r.Status != ua.StatusOK {
			return nil, r.Status
		}
		values = append(values, r.Value.Value())
	}
	return values, nil
}
