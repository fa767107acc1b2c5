package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/proto/framecodec"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/residents"
)

// modelFrame is what a test knows of a frame.
type modelFrame struct {
	name  string
	bytes int64 // on the device
	sum   uint64
	idle  time.Duration
	used  time.Time
	holds []func()
	why   residents.GoneReason // GoneUnknown while it is kept
}

// frameModel is the simplest store there can be, beside the service.
type frameModel struct {
	s      *Server
	serve  *residents.Service
	dev    device.Lease
	frames []*modelFrame
}

// TestFrameModel compares the service with the model over random puts, uses, releases, times and pressure. Time is the
// bubble's.
func TestFrameModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{MemoryBytes: 1 << 20, FrameBytes: 600 << 10, MaxFrames: 12, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			m := &frameModel{s: s, serve: s.frameService}
			var err error
			if m.dev, err = s.dev.Acquire(); err != nil {
				t.Fatal(err)
			}
			defer m.dev.End()
			defer m.clear()
			t.Repeat(map[string]func(*rapid.T){
				"put":      m.put,
				"reduce":   m.reduce,
				"hold":     m.hold,
				"letGo":    m.letGo,
				"release":  m.release,
				"get":      m.get,
				"wait":     m.wait,
				"pressure": m.pressure,
				"":         m.check,
			})
		})
	})
}

// bubbled is a test whose deadline, which is of another time, isn't asked for.
type bubbled struct{ rapid.TB }

// pick returns one of all frames that ever were.
func (m *frameModel) pick(t *rapid.T) *modelFrame {
	if len(m.frames) == 0 {
		t.Skip("no frame")
	}
	return rapid.SampledFrom(m.frames).Draw(t, "frame")
}

func (m *frameModel) kept() (frames []*modelFrame, bytes int64) {
	for _, f := range m.frames {
		if f.why == residents.GoneUnknown {
			frames = append(frames, f)
			bytes += f.bytes
		}
	}
	return frames, bytes
}

// expect compares an error with what became of a frame.
func (m *frameModel) expect(t *rapid.T, f *modelFrame, err error) bool {
	if f.why == residents.GoneUnknown {
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		return true
	}
	var gone *apierr.FrameNotFound
	if !errors.As(err, &gone) || gone.Reason != residents.GoneReasons[f.why].Reason {
		t.Fatalf("%s: %v, want it to be %s", f.name, err, residents.GoneReasons[f.why].Name)
	}
	return false
}

func (m *frameModel) put(t *rapid.T) {
	w, h := rapid.IntRange(1, 300).Draw(t, "w"), rapid.IntRange(1, 300).Draw(t, "h")
	f := &modelFrame{
		bytes: int64(w*h+255) / 256 * 256,
		idle:  time.Duration(rapid.IntRange(1, 60).Draw(t, "idle")) * time.Second,
	}
	msg := noisyFrame(w, h, uint64(w))
	for _, v := range msg.GetData() {
		f.sum += uint64(v)
	}
	req := &pb.PutFrameRequest{Frame: msg, IdleTimeout: durationpb.New(f.idle)}
	res, err := m.serve.HandlePutFrame(t.Context(), req, framecodec.New(req))
	frames, bytes := m.kept()
	var quota *apierr.QuotaError
	var capacity *kernels.CapacityError
	switch fits := len(frames) < 12 && bytes+f.bytes <= 600<<10; {
	case errors.As(err, &capacity) && fits: // held frames may lie in the way
		m.evicted(t)
	case (err == nil) != fits || err != nil && !errors.As(err, &quota):
		t.Fatalf("%d bytes beside %d frames of %d: %v", f.bytes, len(frames), bytes, err)
	case err == nil:
		f.name, f.used = res.GetFrame().GetName(), time.Now()
		if len(f.name) < 26 || res.GetFrame().GetBytes() != uint64(f.bytes) {
			t.Fatalf("%v, want %d bytes", res, f.bytes)
		}
		m.frames = append(m.frames, f)
		m.evicted(t)
	}
}

func (m *frameModel) reduce(t *rapid.T) {
	f := m.pick(t)
	req := &pb.ReduceRequest{
		Inspection: inspecting(rect("all", 0, 0, 300, 300)), Frame: keptFrame(f.name),
	}
	res, err := whole[pb.ReduceResponse](m.s.inspector.HandleReduce(t.Context(), req, framecodec.New(req)))
	if m.expect(t, f, err) {
		f.used = time.Now()
		if sum := res.GetResult().GetRegions()[0].GetChannels()[0].GetSum(); sum != f.sum {
			t.Fatalf("%s: sum %d, want %d", f.name, sum, f.sum)
		}
	}
	m.evicted(t)
}

// hold is a call that takes long.
func (m *frameModel) hold(t *rapid.T) {
	f := m.pick(t)
	_, _, done, err := m.s.residents.Use(auth.Anonymous, f.name)
	if m.expect(t, f, err) {
		f.holds = append(f.holds, done)
	}
}

func (m *frameModel) letGo(t *rapid.T) {
	f := m.pick(t)
	if len(f.holds) == 0 {
		t.Skip("not in use")
	}
	f.holds[0]()
	f.holds, f.used = f.holds[1:], time.Now()
}

func (m *frameModel) release(t *rapid.T) {
	f := m.pick(t)
	_, err := m.serve.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: f.name})
	if m.expect(t, f, err) {
		f.why = residents.GoneReleased
	}
}

func (m *frameModel) get(t *rapid.T) {
	f, touch := m.pick(t), rapid.Bool().Draw(t, "touch")
	res, err := m.serve.GetFrame(t.Context(), &pb.GetFrameRequest{Name: f.name, Touch: touch})
	if !m.expect(t, f, err) {
		return
	}
	if touch || len(f.holds) > 0 {
		if touch {
			f.used = time.Now()
		}
		if got := res.GetFrame().GetUsedAt().AsTime(); !got.Equal(time.Now()) {
			t.Fatalf("%s: used at %v, and it is %v", f.name, got, time.Now())
		}
	}
	if got := res.GetFrame().GetExpiresAt().AsTime(); len(f.holds) == 0 && !got.Equal(f.used.Add(f.idle)) {
		t.Fatalf("%s: expires at %v, want %v", f.name, got, f.used.Add(f.idle))
	}
}

func (m *frameModel) wait(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	synctest.Wait()
	for _, f := range m.frames {
		if f.why == residents.GoneUnknown && len(f.holds) == 0 && time.Since(f.used) >= f.idle {
			f.why = residents.GoneExpired
		}
	}
}

// pressure is a job that takes what nobody holds, or most of it.
func (m *frameModel) pressure(t *rapid.T) {
	var held int64
	for _, f := range m.frames {
		if len(f.holds) > 0 {
			held += f.bytes
		}
	}
	if held > 0 {
		held += 300 << 10 // room for the pieces between
	}
	most := 1<<20 - int(held)
	if most < 1 {
		t.Skip("everything is held")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	n := int64(rapid.IntRange(1, most).Draw(t, "bytes"))
	// Held frames may lie so that it does not fit; then it ends with the context.
	err := m.dev.Do(ctx, kernels.Job{Label: "pressure", Footprint: n}, func(*kernels.Queue) error { return nil })
	if err != nil && held == 0 {
		t.Fatalf("%d bytes: %v", n, err)
	}
	m.evicted(t)
}

// evicted notes which frames went after what may have evicted some. Only those that nobody held may have gone.
func (m *frameModel) evicted(t *rapid.T) {
	res, err := m.serve.ListFrames(t.Context(), &pb.ListFramesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	frames, _ := m.kept()
	for _, f := range frames {
		if slices.ContainsFunc(res.GetFrames(), func(r *pb.ResidentFrame) bool { return r.GetName() == f.name }) {
			continue
		}
		if len(f.holds) > 0 {
			t.Fatalf("%s went while it was in use", f.name)
		}
		f.why = residents.GoneEvicted
	}
	if frames, _ = m.kept(); len(res.GetFrames()) != len(frames) {
		t.Fatalf("%d are listed, want %d", len(res.GetFrames()), len(frames))
	}
}

// check compares the ledgers.
func (m *frameModel) check(t *rapid.T) {
	frames, bytes := m.kept()
	want := residents.Totals{Count: len(frames), Bytes: bytes}
	if got := m.s.residents.Totals().Totals; got != want {
		t.Fatalf("the store has %+v, want %+v", got, want)
	}
	for _, f := range m.frames {
		if f.why != residents.GoneUnknown && len(f.holds) > 0 {
			bytes += f.bytes
		}
	}
	if mem := m.s.dev.Memory(); mem.ByLabel["resident frames"] != bytes || mem.Used != bytes {
		t.Fatalf("%d bytes are held; the device has %+v", bytes, mem)
	}
}

func (m *frameModel) clear() {
	for _, f := range m.frames {
		for _, done := range f.holds {
			done()
		}
		if f.why == residents.GoneUnknown {
			m.s.residents.Release(auth.Anonymous, f.name)
		}
	}
}

// TestFrameOperations lets many clients do what they like, and be cut off in the middle of it; at the end everything is
// as it was.
func TestFrameOperations(t *testing.T) {
	operations := 10_000
	if testing.Short() {
		operations = 2000
	}
	s := start(t, Config{MemoryBytes: 4 << 20, FrameBytes: 3 << 20, MaxFrames: 60, StreamDepth: 2}, frameCodec())
	c := s.frameClient()
	const clients = 8
	var wg sync.WaitGroup
	for k := range clients {
		wg.Go(func() {
			rng := testseed.New(t, uint64(k), 1)
			var names []string
			var sums []uint64
			frame := func() (*pb.Frame, uint64) {
				f := noisyFrame(1+rng.IntN(200), 1+rng.IntN(200), rng.Uint64())
				sum := uint64(0)
				for _, v := range f.GetData() {
					sum += uint64(v)
				}
				return f, sum
			}
			fine := func(err error) bool {
				switch status.Code(err) {
				case codes.OK:
					return true
				case codes.NotFound, codes.ResourceExhausted, codes.Canceled, codes.DeadlineExceeded:
				default:
					t.Error(err)
				}
				return false
			}
			for range operations / clients {
				ctx, cancel := context.WithCancel(t.Context())
				if rng.IntN(4) == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
				}
				i := -1
				if len(names) > 0 {
					i = rng.IntN(len(names))
				}
				switch op := rng.IntN(10); {
				case op < 3 || i < 0:
					f, sum := frame()
					name := ""
					var err error
					if op == 0 {
						name, err = c.upload(ctx, f, 1+rng.IntN(20_000))
					} else {
						var res *pb.PutFrameResponse
						res, err = c.PutFrame(ctx, &pb.PutFrameRequest{Frame: f})
						name = res.GetFrame().GetName()
					}
					if fine(err) {
						names, sums = append(names, name), append(sums, sum)
					}
				case op < 7:
					res, err := s.inspection.Reduce(ctx,
						&pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, 200, 200)), Frame: keptFrame(names[i])})
					if fine(err) && res.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != sums[i] {
						t.Errorf("sum %v, want %d", res, sums[i])
					}
				case op < 8:
					_, err := c.GetFrame(ctx, &pb.GetFrameRequest{Name: names[i], Touch: true})
					fine(err)
				default:
					_, err := c.ReleaseFrame(ctx, &pb.ReleaseFrameRequest{Name: names[i]})
					fine(err)
					names, sums = slices.Delete(names, i, i+1), slices.Delete(sums, i, i+1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	waitFor(t, "calls to end", func() bool { return metric(t, s, "polyscan_requests_in_flight") == 0 })
	waitFor(t, "uploads to end", func() bool { return s.residents.Totals().Count == len(c.list(t)) })
	for _, f := range c.list(t) {
		c.release(t, f.GetName())
	}
	if st, m := s.residents.Totals(), s.dev.Memory(); st.Totals != (residents.Totals{}) || m.Used != 0 ||
		len(m.ByLabel) != 0 {
		t.Errorf("left: %+v, %+v", st, m)
	}
	for line := range strings.Lines(s.logs.String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Error(line)
		}
	}
}

// FuzzUploadFrame sends messages that the fuzzer makes up, and compares what comes of them with the rules.
func FuzzUploadFrame(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 30)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Add([]byte{4, 4, 0, 0, 0, 8, 0, 0, 8, 0})
	s := start(f, Config{MemoryBytes: 1 << 20}, frameCodec())
	c := s.frameClient()
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			v := data[0]
			data = data[1:]
			return int(v)
		}
		w, h, gap := next()%40, next()%40, next()%3
		layout := &pb.FrameLayout{Width: uint32(w), Height: uint32(h), PixelFormat: gray8, Stride: uint32(w + gap)}
		stream, err := c.UploadFrame(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		valid, total, value := w > 0 && h > 0, 0, byte(0)
		var sum uint64
		for i := 0; i == 0 || len(data) > 0; i++ {
			m := &pb.UploadFrameRequest{Frame: &pb.Frame{}}
			kind, n := next(), next()*(1+next()%20)
			if first := i == 0; first != (kind%29 == 28) {
				m.Frame.Layout = layout
				valid = valid && first
			} else if first {
				valid = false
			}
			switch kind % 31 {
			case 30:
				m.Frame.Encoding = pb.Encoding_ENCODING_BMP
				valid = false
			case 29:
				m.IdleTimeout = durationpb.New(time.Second)
				valid = valid && i == 0
			case 28:
				m.Frame.FrameId = "f"
				valid = valid && i == 0
			case 27:
				m.Frame.Source = &pb.Frame_Resident{Resident: "f"}
				valid, n = false, 0
			case 26:
				n = 0
			default:
				pix := make([]byte, n)
				for k := range pix {
					value++
					pix[k] = value
					if at := total + k; at < h*(w+gap) && at%(w+gap) < w {
						sum += uint64(value)
					}
				}
				m.Frame.Source = &pb.Frame_Data{Data: pix}
			}
			if kind%31 >= 26 {
				n = 0
			}
			total += n
			if stream.Send(m) != nil {
				break // the reason comes below
			}
		}
		most := h * (w + gap)
		valid = valid && total >= most-gap && total <= most
		res, err := stream.CloseAndRecv()
		if valid != (err == nil) || err != nil && status.Code(err) != codes.InvalidArgument {
			t.Fatalf("%d of %d bytes, valid: %v; %v", total, most, valid, err)
		}
		if valid {
			name := res.GetFrame().GetName()
			r, err := s.inspection.Reduce(t.Context(),
				&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 40, 40)), Frame: keptFrame(name)})
			if err != nil || r.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != sum {
				t.Errorf("%v, %v, want %d", r, err, sum)
			}
			c.release(t, name)
		}
		waitFor(t, "the end",
			func() bool { return s.residents.Totals().Totals == residents.Totals{} && s.dev.Memory().Used == 0 })
	})
}
