package main

// A server that can be wrong: what the real one can't be made to do.

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// fakeServer inspects parts that start every so many lines, with the oracle, and then spoils results.
type fakeServer struct {
	polyscanv1.UnimplementedLineScanServiceServer
	polyscanv1.UnimplementedDeviceServiceServer
	spoil func(*polyscanv1.PartResult) bool // false: the result is not sent
}

func (f *fakeServer) GetDevice(context.Context, *polyscanv1.GetDeviceRequest) (*polyscanv1.GetDeviceResponse, error) {
	return &polyscanv1.GetDeviceResponse{Backend: "fake", DeviceName: "none"}, nil
}

func (f *fakeServer) ScanLines(s polyscanv1.LineScanService_ScanLinesServer) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	open := m.GetOpen()
	if open == nil {
		return status.Error(codes.NotFound, "no sessions are kept")
	}
	const credit = 1 << 40
	if err := s.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Opened{Opened: &polyscanv1.ScanOpened{
		SessionToken: make([]byte, 16), CreditLine: credit, Backend: "fake",
	}}}); err != nil {
		return err
	}
	l := open.GetLayout()
	pix := picture{}
	b := &belt{width: int(l.GetWidth()), format: l.GetPixelFormat()}
	b.at = func(line uint64) stretch { return stretch{0, int(line), pix.rows - int(line)} }
	parts, every := int(open.GetPartLines()), int(open.GetEveryLines())
	o, err := newOracle(b, parts, open.GetInspection().GetRegionSet().GetRegions())
	if err != nil {
		return err
	}
	sent, results := 0, uint64(0)
	var ids []string // of parts
	for {
		m, err := s.Recv()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		st := m.GetStrip()
		ids = append(ids, st.GetPartIds()...)
		if !end {
			pix.pix = append(pix.pix, st.GetFrame().GetData()...)
			pix.rows = len(pix.pix) / b.rowBytes()
		}
		have := pix.rows
		if end {
			pix.pix = append(pix.pix, make([]byte, parts*b.rowBytes())...)
			pix.rows += parts
		}
		b.pictures = []picture{pix}
		for ; sent*every+parts <= have || end && sent*every < have; sent++ {
			p := f.part(o, uint64(sent*every), uint64(have))
			p.ResultNumber, p.PartNumber, p.StripSequence = results, uint64(sent),
				uint64((sent*every+parts-1)/int(l.GetHeight()))
			if sent < len(ids) {
				p.PartId = ids[sent]
			}
			if f.spoil != nil && !f.spoil(p) {
				continue
			}
			results++
			if err := s.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Part{Part: p}}); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		if err := s.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Ack{Ack: &polyscanv1.ScanAck{
			NextSequence: st.GetSequence() + 1, CreditLine: credit,
		}}}); err != nil {
			return err
		}
	}
}

// part is the result of the part that starts at a line, of which the lines before end have come.
func (f *fakeServer) part(o *oracle, first, end uint64) *polyscanv1.PartResult {
	missing, needed := o.missing(first, []lineRange{{end, first + uint64(o.lines)}})
	p := &polyscanv1.PartResult{FirstLine: first, Incomplete: needed > 0, MissingLines: needed,
		Times: &polyscanv1.PartTimes{Latency: durationpb.New(time.Millisecond)}}
	for i, r := range o.compute(o.belt.runs(nil, first, o.lines), missing) {
		g := &polyscanv1.RegionResult{Index: uint32(i), Name: o.shapes[i].name, Count: r.count, Verdict: r.verdict}
		for k := range r.channels {
			c := &r.channels[k]
			count, sum, squares := c.totals()
			s := &polyscanv1.ChannelStatistics{Channel: c.channel, Count: &count, Sum: &sum, SumOfSquares: &squares}
			if count > 0 {
				v := c.values()
				mean, stddev := c.mean(), c.stddev()
				variance, _ := c.variance().Float64()
				s.Mean, s.Variance, s.Stddev, s.Min, s.Max = &mean, &variance, &stddev, &v[0], &v[len(v)-1]
				s.MinAt = &polyscanv1.PixelPosition{X: c.minAt[0], Y: c.minAt[1]}
				s.MaxAt = &polyscanv1.PixelPosition{X: c.maxAt[0], Y: c.maxAt[1]}
			}
			g.Channels = append(g.Channels, s)
		}
		p.Regions = append(p.Regions, g)
		p.Verdict = max(p.Verdict, g.Verdict) // in the order of the enum FAIL is the highest
	}
	if p.Incomplete && p.Verdict == polyscanv1.Verdict_VERDICT_PASS {
		p.Verdict = polyscanv1.Verdict_VERDICT_FAIL
	}
	return p
}

// serveFake starts the fake and returns its address.
func serveFake(t *testing.T, spoil func(*polyscanv1.PartResult) bool) string {
	t.Helper()
	addr, _ := startFake(t, spoil)
	return addr
}

// startFake is serveFake with a function that kills the server.
func startFake(t *testing.T, spoil func(*polyscanv1.PartResult) bool) (addr string, kill func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	f := &fakeServer{spoil: spoil}
	polyscanv1.RegisterLineScanServiceServer(s, f)
	polyscanv1.RegisterDeviceServiceServer(s, f)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			t.Error(err)
		}
	})
	return "unix:" + path, s.Stop
}
