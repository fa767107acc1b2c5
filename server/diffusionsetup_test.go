package server

import (
	"bytes"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/proto/framecodec"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Set-ups are kept from call to call, whatever the calls are, and answers and metrics say so.
func TestSetupsKept(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	solve := func(what string, edges []byte, kept bool) {
		t.Helper()
		d := drawing(5, &pb.ColorStop{Red: 200})
		if what == "another colour" {
			d.Curves[0].Left[0].Green = 7
		}
		got, err := c.Solve(t.Context(), &pb.SolveRequest{Drawing: d, Edges: edges})
		if err != nil || got.SetupKept != kept {
			t.Errorf("%s: %v, kept: %v", what, err, got.GetSetupKept())
		}
	}
	edges := make([]byte, 12*9)
	edges[50] = 2
	solve("new", nil, false)
	solve("again", nil, true)
	solve("another colour", nil, true)
	solve("an edge", edges, false)
	solve("the same edge", edges, true)
	wantSetups(t, ts, 3, 2)

	var result *pb.SolveResponse
	for res, err := range c.SolveProgressively(t.Context(),
		&pb.SolveRequest{Drawing: drawing(5, &pb.ColorStop{Blue: 9})}) {
		if err != nil {
			t.Fatal(err)
		}
		result = res.GetResult()
	}
	if !result.GetSetupKept() {
		t.Error("the same curve in SolveProgressively: not kept")
	}

	frame, pix, clean, square := ramp()
	mask := make([]byte, len(pix))
	for i := range mask {
		mask[i] = pix[i] - clean[i]
	}
	recipe := ts.put(t, "square", square.Regions[0])
	for i, req := range []*pb.FillHolesRequest{
		{Holes: &pb.FillHolesRequest_Recipe{Recipe: &pb.RecipeRef{Name: recipe.Name}}},
		{Holes: &pb.FillHolesRequest_RegionSet{RegionSet: square}},
		{Holes: &pb.FillHolesRequest_Mask{Mask: mask}},
	} {
		req.Frame = frame
		got, err := c.FillHoles(t.Context(), req)
		if err != nil || got.GetReport().GetSetupKept() != (i > 0) || !bytes.Equal(got.GetPicture().GetData(), clean) {
			t.Errorf("FillHoles %d: %v, %v, or other pixels", i, err, got.GetReport())
		}
	}
	back, err := c.Background(t.Context(),
		&pb.BackgroundRequest{Frame: frame, Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square}})
	if err != nil || !back.GetReport().GetSetupKept() || !bytes.Equal(back.GetBackground().GetData(), clean) {
		t.Errorf("Background: %v, %v, or other pixels", err, back.GetReport())
	}
	wantSetups(t, ts, 7, 3)
	if n := metric(t, ts, "polyscan_diffusion_setups_bytes"); n <= 0 || n != float64(ts.dev.Memory().Used) {
		t.Errorf("%v bytes of set-ups, and %+v", n, ts.dev.Memory())
	}

	// They go when the memory is needed, and nobody notices but for the time.
	dev := ts.dev.Current()
	if err := dev.Do(t.Context(), kernels.Job{Label: "all", Footprint: dev.Memory().Reserved},
		func(*kernels.Queue) error { return nil }); err != nil {
		t.Fatal(err)
	}
	solve("after eviction", nil, false)
	solve("after eviction, again", nil, true)
	wantSetups(t, ts, 8, 4)
	if n := metric(t, ts, "polyscan_diffusion_setups_evictions_total"); n != 3 {
		t.Errorf("%v evictions", n)
	}
	if n := metric(t, ts, "polyscan_device_memory_evictions_total"); n != 0 {
		t.Errorf("%v evictions of what is not set-ups", n)
	}
}

func wantSetups(t *testing.T, ts *testServer, hits, misses float64) {
	t.Helper()
	if h, m := metric(t, ts, "polyscan_diffusion_setups_hits_total"),
		metric(t, ts, "polyscan_diffusion_setups_misses_total"); h != hits || m != misses {
		t.Errorf("%v hits and %v misses, want %v and %v", h, m, hits, misses)
	}
}

// SetupBytes bounds what is kept.
func TestSetupBytes(t *testing.T) {
	ts := start(t, Config{SetupBytes: 1})
	c := clients.New(ts.conn)
	s := devicetest.Scenes(8, 40)[0]
	frame, _ := givenFrame(s)
	for range 2 {
		if got, err := c.Solve(t.Context(), &pb.SolveRequest{Frame: frame}); err != nil || got.SetupKept {
			t.Errorf("%v, kept: %v", err, got.GetSetupKept())
		}
	}
	if m := ts.dev.Memory(); m.Used != 0 {
		t.Errorf("memory of the device in use: %+v", m)
	}
}

// BenchmarkSolve is the handler alone, from 100 curves on 512 x 512 to the picture, in other places each time and in
// the same ones. Where there are barriers every tenth curve is one.
func BenchmarkSolve(b *testing.B) {
	const side = 512
	s := start(b, Config{MemoryBytes: 1 << 30})
	for _, barriers := range []bool{false, true} {
		for _, move := range []bool{true, false} {
			name := map[bool]string{false: "curves", true: "barriers"}[barriers] +
				map[bool]string{true: "/new", false: "/kept"}[move]
			b.Run(name, func(b *testing.B) {
				r := seed.New(b, 3, 8)
				d := &pb.Drawing{Width: side, Height: side}
				for i := range 100 {
					c := &pb.Curve{Id: strconv.Itoa(i), Left: []*pb.ColorStop{{Red: 255 * r.Float32()}},
						Right: []*pb.ColorStop{{Blue: 255 * r.Float32()}}}
					x, y := side*r.Float64(), side*r.Float64()
					for range 4 {
						c.Xy = append(c.Xy, x, y)
						x, y = x+80*(r.Float64()-0.5), y+80*(r.Float64()-0.5)
					}
					c.Barrier = barriers && i%10 == 0
					d.Curves = append(d.Curves, c)
				}
				i := 0
				for b.Loop() {
					i++
					d.Curves[7].Left[0].Green = float32(i % 256)
					if move {
						d.Curves[7].Xy[0] = float64(100 + i%800)
					}
					req := &pb.SolveRequest{Drawing: d}
					res, err := s.diffusion.HandleSolve(b.Context(), req, framecodec.New(req))
					if err != nil {
						b.Fatal(err)
					}
					res.Release()
					out := res.Message.(*framecodec.Message).Message.(*pb.SolveResponse)
					if i > 1 && i < 800 && out.GetSetupKept() == move {
						b.Fatalf("kept: %v", out.GetSetupKept())
					}
				}
			})
		}
	}
}

// The curves of a drawing are in the ledger of host memory while a call has them, with as much as their message takes.
func TestDrawingInLedger(t *testing.T) {
	h := newHooked()
	ts := start(t, Config{Driver: h})
	used := 0.
	h.on("DiffusionSolve", func() error {
		used = gather(t, ts.gatherer).sum(t, "polyscan_host_memory_bytes")
		return nil
	})
	curve := drawing(5, &pb.ColorStop{Red: 200}).Curves[0]
	curve.Id = ""
	solve := func(curves int) float64 {
		d := &pb.Drawing{Width: 12, Height: 9}
		for range curves {
			d.Curves = append(d.Curves, curve)
		}
		req := &pb.SolveRequest{Drawing: d}
		if _, err := ts.diffusion.HandleSolve(t.Context(), req, framecodec.New(req)); err != nil {
			t.Fatal(err)
		}
		return used
	}
	few, many := solve(1), solve(3001)
	if more, least := many-few, 3000*float64(proto.Size(curve)); more < least {
		t.Errorf("3000 curves more count as %v bytes, in their message they are %v", more, least)
	}
}
