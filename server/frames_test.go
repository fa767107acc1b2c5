package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/residents"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// frameClient is a client of FrameService.
type frameClient struct{ pb.FrameServiceClient }

func (ts *testServer) frameClient() frameClient {
	return frameClient{pb.NewFrameServiceClient(ts.conn)}
}

func (c frameClient) put(t testing.TB, f *pb.Frame) *pb.ResidentFrame {
	t.Helper()
	res, err := c.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: f})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetFrame()
}

func (c frameClient) release(t testing.TB, name string) {
	t.Helper()
	if _, err := c.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name}); err != nil {
		t.Errorf("release: %v", err)
	}
}

// list returns all frames, page by page.
func (c frameClient) list(t testing.TB) (all []*pb.ResidentFrame) {
	t.Helper()
	for req := (&pb.ListFramesRequest{PageSize: 2}); ; {
		res, err := c.ListFrames(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.GetFrames()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// upload sends a frame of raw pixels in pieces, and returns its name.
func (c frameClient) upload(ctx context.Context, f *pb.Frame, piece int) (string, error) {
	stream, err := c.UploadFrame(ctx)
	if err != nil {
		return "", err
	}
	data := f.GetData()
	m := &pb.UploadFrameRequest{Frame: &pb.Frame{Layout: f.GetLayout(), FrameId: f.GetFrameId(),
		Encoding: pb.Encoding_ENCODING_RAW}}
	for {
		n := min(piece, len(data))
		m.Frame.Source = &pb.Frame_Data{Data: data[:n]}
		if err := stream.Send(m); err != nil {
			if !errors.Is(err, io.EOF) { // else CloseAndRecv has the reason
				return "", err
			}
			break
		}
		if data = data[n:]; len(data) == 0 {
			break
		}
		m = &pb.UploadFrameRequest{Frame: &pb.Frame{}}
	}
	res, err := stream.CloseAndRecv()
	return res.GetFrame().GetName(), err
}

// keptFrame names a frame that is kept.
func keptFrame(name string) *pb.Frame {
	return &pb.Frame{Source: &pb.Frame_Resident{Resident: name}}
}

// noisyFrame has random pixels.
func noisyFrame(w, h int, seed uint64) *pb.Frame {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, w*h)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return rawFrame(w, h, gray8, data)
}

// A frame that is kept serves calls and streams with the numbers of one that is sent, and is described as it is.
func TestResidentFrame(t *testing.T) {
	s := start(t, Config{FrameIdleTimeout: time.Hour}, frameCodec())
	c := s.frameClient()
	pix := image.NewGray(image.Rect(0, 0, 40, 30))
	for i := range pix.Pix {
		pix.Pix[i] = byte(i * 13)
	}
	gap := rawFrame(20, 30, gray8, noisyFrame(25, 30, 3).GetData()[:25*30-3])
	gap.Layout.Stride = 25
	deep := rawFrame(20, 30, pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, noisyFrame(40, 30, 4).GetData())
	in := inspecting(rect("a", 0, 0, 20, 30), rect("b", 3, 25, 9, 30), star("c", 9, 10, 10, 8))
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{
		pb.Statistic_STATISTIC_SUM, pb.Statistic_STATISTIC_MIN, pb.Statistic_STATISTIC_MEDIAN,
		pb.Statistic_STATISTIC_CENTROID,
	}}
	for name, f := range map[string]*pb.Frame{
		"gray": noisyFrame(20, 30, 1), "gap": gap, "16 bits": deep, "PNG": fileFrame(encodePicture(t, "png", pix)),
		"colour": rawFrame(20, 30, pb.PixelFormat_PIXEL_FORMAT_BGR8, noisyFrame(60, 30, 2).GetData()),
	} {
		f.FrameId = name
		sent, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: f})
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		kept := c.put(t, f)
		l := sent.GetResult().GetLayout()
		if kept.GetFrameId() != name || !proto.Equal(kept.GetLayout(), l) {
			t.Errorf("%s: %v, want %v", name, kept, l)
		}
		size := l.GetStride()*(l.GetHeight()-1) + l.GetWidth()*uint32(wire.Formats[l.GetPixelFormat()].PixelBytes())
		if l.GetPixelFormat() == pb.PixelFormat_PIXEL_FORMAT_GRAY16LE {
			size = 2 * 20 * 30
		}
		if b := kept.GetBytes(); b != uint64(size+255)/256*256 {
			t.Errorf("%s: %d bytes, want %d", name, b, size)
		}
		if created := kept.GetCreatedAt().AsTime(); created.Before(before) || created.After(time.Now()) ||
			kept.GetExpiresAt().AsTime().Sub(kept.GetUsedAt().AsTime()) != time.Hour {
			t.Errorf("%s: %v", name, kept)
		}
		for _, id := range []string{"", "other"} {
			m := keptFrame(kept.GetName())
			m.FrameId = id
			res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: m})
			if err != nil {
				t.Fatal(err)
			}
			if want := cmp.Or(id, name); res.GetResult().GetFrameId() != want ||
				!sameNumbers(res.GetResult(), sent.GetResult()) {
				t.Errorf("%s: %v, want %v", name, res.GetResult(), sent.GetResult())
			}
		}
		stream := s.open(t, in)
		stream.send(keptFrame(kept.GetName()))
		stream.send(f)
		for range 2 {
			if r := stream.recv().GetResult(); !sameNumbers(r, sent.GetResult()) {
				t.Errorf("%s in a stream: %v", name, r)
			}
		}
		stream.end(nil)
		c.release(t, kept.GetName())
		_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: keptFrame(kept.GetName())})
		if d := detailsOf(t, err); d.status.Code() != codes.NotFound || d.info.Reason != apierr.ReasonFrameReleased ||
			d.res.ResourceName != kept.GetName() {
			t.Errorf("%s, released: %v", name, err)
		}
	}
	if m := s.dev.Memory(); m.ByLabel["resident frames"] != 0 {
		t.Errorf("%v", m)
	}
}

func TestFrameRequestsRefused(t *testing.T) {
	s := start(t, Config{MaxFrames: 2, FrameBytes: 1000, MaxFramePixels: 10_000, MaxFrameIdleTimeout: time.Hour})
	c := s.frameClient()
	name := c.put(t, noisyFrame(10, 10, 1)).GetName()
	put := func(f *pb.Frame, idle *durationpb.Duration) error {
		_, err := c.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: f, IdleTimeout: idle})
		return err
	}
	reduce := func(change func(*pb.Frame)) error {
		f := keptFrame(name)
		change(f)
		_, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 2)), Frame: f})
		return err
	}
	get := func(name string) error {
		_, err := c.GetFrame(t.Context(), &pb.GetFrameRequest{Name: name})
		return err
	}
	for _, x := range []struct {
		err    error
		code   codes.Code
		reason string
		words  string
	}{
		{put(keptFrame(name), nil), codes.InvalidArgument, apierr.ReasonInvalidField, "frame.resident: is kept already"},
		{put(nil, nil), codes.InvalidArgument, apierr.ReasonInvalidField, "frame: is required"},
		{put(rawFrame(10, 10, gray8, make([]byte, 99)), nil), codes.InvalidArgument, apierr.ReasonInvalidField,
			"frame.data = 99 bytes: must hold 100 bytes"},
		{put(rawFrame(0, 10, gray8, nil), nil), codes.InvalidArgument, apierr.ReasonInvalidField,
			"frame.layout.width = 0: must be 1 to"},
		{put(rawFrame(1000, 11, gray8, nil), nil), codes.InvalidArgument, apierr.ReasonInvalidField,
			"makes 11000 pixels: the limit is 10000"},
		{put(fileFrame([]byte("GIF89a")), nil), codes.InvalidArgument, apierr.ReasonInvalidField,
			"is no PNG, JPEG, TIFF or BMP"},
		{put(smallFrame(1), durationpb.New(2*time.Hour)), codes.InvalidArgument, apierr.ReasonInvalidField,
			"idle_timeout = 2h0m0s: must be more than 0s and at most 1h0m0s"},
		{put(smallFrame(1), durationpb.New(0)), codes.InvalidArgument, apierr.ReasonInvalidField,
			"idle_timeout = 0s: must be more"},
		{put(smallFrame(1), &durationpb.Duration{Seconds: 1 << 60}), codes.InvalidArgument, apierr.ReasonInvalidField,
			"idle_timeout"},
		{put(noisyFrame(100, 90, 1), nil), codes.ResourceExhausted, apierr.ReasonFramesFull,
			"the frame takes 9216 bytes; the limit for all together is 1000"},
		{put(noisyFrame(10, 90, 1), nil), codes.ResourceExhausted, apierr.ReasonFramesFull,
			"the frame takes 1024 bytes; the limit for all together is 1000"},
		{put(noisyFrame(10, 76, 1), nil), codes.ResourceExhausted, apierr.ReasonFramesFull,
			"the frame takes 768 bytes, and 256 of 1000 are taken"},
		{reduce(func(f *pb.Frame) {
			f.Layout = &pb.FrameLayout{Width: 10}
		}), codes.InvalidArgument, apierr.ReasonInvalidField, "frame.layout: must not be given with resident"},
		{reduce(func(f *pb.Frame) {
			f.Encoding = pb.Encoding_ENCODING_RAW
		}), codes.InvalidArgument, apierr.ReasonInvalidField, "frame.encoding = RAW: must not be given with resident"},
		{get("nobody"), codes.NotFound, apierr.ReasonUnknownFrame, `frame "nobody": there is no such frame`},
		{get(""), codes.NotFound, apierr.ReasonUnknownFrame, "no such frame"},
		{get(strings.Repeat("x", 129)), codes.InvalidArgument, apierr.ReasonInvalidField, "name"},
	} {
		d := detailsOf(t, x.err)
		if d.status.Code() != x.code || d.info.GetReason() != x.reason ||
			!strings.Contains(d.status.Message(), x.words) {
			t.Errorf("%v, want %v, %s, %s", x.err, x.code, x.reason, x.words)
		}
		if (x.code == codes.ResourceExhausted) != (d.quota != nil) {
			t.Errorf("%v: %v", x.err, d.quota)
		}
	}
	c.put(t, smallFrame(1))
	if err := put(smallFrame(2), nil); !strings.Contains(fmt.Sprint(err), "2 are kept, which is the limit") {
		t.Error(err)
	}
	for _, token := range []string{"!", "=="} {
		if _, err := c.ListFrames(t.Context(),
			&pb.ListFramesRequest{PageToken: token}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("page token %q: %v", token, err)
		}
	}
	if l := c.list(t); len(l) != 2 {
		t.Errorf("%v", l)
	}
}

// Many calls share one frame, and none of them brings another copy of it to the device.
func TestResidentFrameShared(t *testing.T) {
	s := start(t, Config{MemoryBytes: 1 << 20, FrameBytes: 1 << 20, Streams: 4})
	c := s.frameClient()
	f := noisyFrame(600, 1000, 1) // more than half of the memory
	name := c.put(t, f).GetName()
	want := uint64(0)
	for _, v := range f.GetData() {
		want += uint64(v)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				res, err := s.inspection.Reduce(t.Context(),
					&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 600, 1000)), Frame: keptFrame(name)})
				if err != nil || res.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != want {
					t.Errorf("%v, %v, want %d", res, err, want)
				}
			}
		})
	}
	wg.Wait()
	c.release(t, name)
	if m := s.dev.Memory(); m.Used != 0 || m.Evictions != 0 {
		t.Errorf("%+v", m)
	}
}

// Pages have every frame once, in order, whatever their size.
func TestListFrames(t *testing.T) {
	s := start(t, Config{})
	c := s.frameClient()
	var want []string
	for range 7 {
		want = append(want, c.put(t, smallFrame(1)).GetName())
	}
	slices.Sort(want)
	for size := uint32(0); size < 9; size++ {
		var got []string
		for req := (&pb.ListFramesRequest{PageSize: size}); ; {
			res, err := c.ListFrames(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(res.GetFrames()); size > 0 && n > int(size) {
				t.Errorf("%d on a page of %d", n, size)
			}
			for _, f := range res.GetFrames() {
				got = append(got, f.GetName())
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", size, got, want)
		}
	}
}

// Pressure takes frames that nobody uses, and says so; those in use stay.
func TestFrameEviction(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, MemoryBytes: 1 << 20, FrameBytes: 1 << 20})
	c := s.frameClient()
	in := inspecting(rect("r", 0, 0, 400, 600))
	held := c.put(t, noisyFrame(400, 600, 1)).GetName()
	idle := c.put(t, noisyFrame(400, 600, 2)).GetName()
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	call := make(chan *pb.FrameResult, 1)
	go func() {
		res, err := s.inspection.Reduce(context.Background(), &pb.ReduceRequest{Inspection: in, Frame: keptFrame(held)})
		if err != nil {
			t.Error(err)
		}
		call <- res.GetResult()
	}()
	<-entered
	h.set(func() error { return nil })
	res, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 700, 900)), Frame: noisyFrame(700, 900, 3)})
	if err != nil {
		t.Fatal(err, res)
	}
	_, err = c.GetFrame(t.Context(), &pb.GetFrameRequest{Name: idle})
	if d := detailsOf(t, err); d.status.Code() != codes.NotFound || d.info.Reason != apierr.ReasonFrameEvicted {
		t.Errorf("the idle one: %v", err)
	}
	// Released in use: the call finishes, and the memory goes back after it.
	c.release(t, held)
	if m := s.dev.Memory(); m.ByLabel["resident frames"] != 240128 {
		t.Errorf("%v", m)
	}
	close(leave)
	want := uint64(0)
	for _, v := range noisyFrame(400, 600, 1).GetData() {
		want += uint64(v)
	}
	if got := (<-call).GetRegions()[0].GetChannels()[0].GetSum(); got != want {
		t.Errorf("sum %d, want %d", got, want)
	}
	waitFor(t, "the memory", func() bool { return s.dev.Memory().Used == 0 })
	if st := s.residents.Totals(); st.Totals != (residents.Totals{}) || st.Kept != 2 ||
		st.Went[residents.GoneEvicted] != 1 ||
		st.Went[residents.GoneReleased] != 1 {
		t.Errorf("%+v", st)
	}
}

// Uploads that end in another way than with all their pixels leave nothing.
func TestUploadFrameEnds(t *testing.T) {
	s := start(t, Config{MemoryBytes: 16 << 20})
	c := s.frameClient()
	const w, h = 300, 200
	f := noisyFrame(w, h, 1)
	data := f.GetData()
	empty := func() bool {
		return s.residents.Totals().Totals == residents.Totals{} && s.dev.Memory().Used == 0
	}
	for _, piece := range []int{1000, 7, w * h, w*h - 1} {
		if piece < 100 { // many messages
			f = noisyFrame(30, 20, 1)
		} else {
			f = rawFrame(w, h, gray8, data)
		}
		name, err := c.upload(t.Context(), f, piece)
		if err != nil {
			t.Fatalf("pieces of %d bytes: %v", piece, err)
		}
		want := uint64(0)
		for _, v := range f.GetData() {
			want += uint64(v)
		}
		res, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, w, h)), Frame: keptFrame(name)})
		if err != nil || res.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != want {
			t.Errorf("pieces of %d bytes: %v, %v", piece, res, err)
		}
		c.release(t, name)
	}
	layout := f.GetLayout()
	piece := func(l *pb.FrameLayout, n int) *pb.UploadFrameRequest {
		return &pb.UploadFrameRequest{Frame: &pb.Frame{Layout: l, Source: &pb.Frame_Data{Data: data[:n]}}}
	}
	with := func(m *pb.UploadFrameRequest, change func(*pb.UploadFrameRequest)) *pb.UploadFrameRequest {
		change(m)
		return m
	}
	for name, x := range map[string]struct {
		messages []*pb.UploadFrameRequest
		words    string
	}{
		"nothing":   {nil, "must come in the first message"},
		"no layout": {[]*pb.UploadFrameRequest{piece(nil, 100)}, "frame.layout: must be given"},
		"too few": {[]*pb.UploadFrameRequest{piece(layout, 100), piece(nil, 100)},
			"frame.data = 200 bytes: are too few: the layout takes 60000"},
		"too many": {[]*pb.UploadFrameRequest{piece(layout, w*h), piece(nil, 1)},
			"frame.data = 60001 bytes: are too many: the layout takes 60000"},
		"second layout": {[]*pb.UploadFrameRequest{piece(layout, 1), piece(layout, 1)},
			"frame.layout: came a second time"},
		"late name": {[]*pb.UploadFrameRequest{piece(layout, 1),
			with(piece(nil, 1), func(m *pb.UploadFrameRequest) { m.Frame.FrameId = "x" })}, "frame.frame_id"},
		"late timeout": {[]*pb.UploadFrameRequest{piece(layout, 1),
			with(piece(nil, 1), func(m *pb.UploadFrameRequest) { m.IdleTimeout = durationpb.New(1) })}, "idle_timeout"},
		"bad timeout": {[]*pb.UploadFrameRequest{with(piece(layout, 1), func(m *pb.UploadFrameRequest) {
			m.IdleTimeout = durationpb.New(-1)
		})}, "idle_timeout"},
		"a file": {[]*pb.UploadFrameRequest{with(piece(layout, 1), func(m *pb.UploadFrameRequest) {
			m.Frame.Encoding = pb.Encoding_ENCODING_PNG
		})}, "frame.encoding = PNG: must be RAW"},
		"another frame": {[]*pb.UploadFrameRequest{with(piece(layout, 1), func(m *pb.UploadFrameRequest) {
			m.Frame.Source = &pb.Frame_Resident{Resident: "x"}
		})}, "frame.source: must be data"},
		"empty message": {[]*pb.UploadFrameRequest{{}}, "frame: is required"},
		"larger than all": {[]*pb.UploadFrameRequest{piece(&pb.FrameLayout{Width: 4000, Height: 4000,
			PixelFormat: gray8}, 1)}, "the limit for all together is 8388608"},
	} {
		stream, err := c.UploadFrame(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range x.messages {
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		_, err = stream.CloseAndRecv()
		d := detailsOf(t, err)
		if c := d.status.Code(); c != codes.InvalidArgument && c != codes.ResourceExhausted ||
			!strings.Contains(d.status.Message(), x.words) {
			t.Errorf("%s: %v, want %s", name, err, x.words)
		}
		waitFor(t, name, empty)
	}
	// Cancelled, and when the server ends.
	for _, end := range []string{"cancel", "shutdown"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := c.UploadFrame(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(piece(layout, 100)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the upload to begin", func() bool { return s.residents.Totals().Count == 1 })
		if end == "cancel" {
			cancel()
		} else {
			s.stop(t)
			_, err := stream.CloseAndRecv()
			if d := detailsOf(t, err); d.status.Code() != codes.Unavailable || d.info.Reason != apierr.ReasonShuttingDown {
				t.Errorf("shutdown: %v", err)
			}
		}
		waitFor(t, end, empty)
	}
}

// Copies are for devices that can be lost, and timeouts keep their order.
func TestFrameLimits(t *testing.T) {
	cpu, gpu := driver.Info{Backend: "cpu", MemoryBytes: 1000}, driver.Info{Backend: "cuda", MemoryBytes: 1000}
	for _, x := range []struct {
		cfg           Config
		dev           driver.Info
		bytes, copies int64
		idle, maxIdle time.Duration
	}{
		{Config{}, cpu, 500, 0, standard.FrameIdleTimeout, standard.MaxFrameIdleTimeout},
		{Config{}, gpu, 500, 500, standard.FrameIdleTimeout, standard.MaxFrameIdleTimeout},
		{Config{NoFrameCopies: true}, gpu, 500, 0, standard.FrameIdleTimeout, standard.MaxFrameIdleTimeout},
		{Config{FrameBytes: 300, FrameCopyBytes: 100}, gpu, 300, 100, standard.FrameIdleTimeout,
			standard.MaxFrameIdleTimeout},
		{Config{FrameCopyBytes: 100}, cpu, 500, 100, standard.FrameIdleTimeout, standard.MaxFrameIdleTimeout},
		{Config{FrameIdleTimeout: 48 * time.Hour}, cpu, 500, 0, 48 * time.Hour, 48 * time.Hour},
		{Config{MaxFrameIdleTimeout: time.Minute}, cpu, 500, 0, time.Minute, time.Minute},
	} {
		cfg, err := x.cfg.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		l := cfg.frameLimits(x.dev)
		if l.Bytes != x.bytes || l.Copies != x.copies || l.Idle != x.idle || l.MaxIdle != x.maxIdle ||
			l.Count != standard.MaxFrames {
			t.Errorf("%+v on %s: %+v", x.cfg, x.dev.Backend, l)
		}
	}
	_, err := New(Config{FrameIdleTimeout: 2 * time.Hour, MaxFrameIdleTimeout: time.Hour})
	if err == nil || !strings.Contains(err.Error(),
		"Config.FrameIdleTimeout = 2h0m0s: must be 0s to 1h0m0s, max-frame-idle") {
		t.Error(err)
	}
}

// An upload that brings nothing for a while is ended, and leaves nothing.
func TestUploadFrameStalls(t *testing.T) {
	s := start(t, Config{uploadStall: 10 * time.Millisecond})
	c := s.frameClient()
	for _, first := range []*pb.UploadFrameRequest{nil, {Frame: noisyFrame(30, 20, 1)}} {
		stream, err := c.UploadFrame(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if first != nil {
			if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) { // it may have stalled before
				t.Fatal(err)
			}
		}
		err = stream.RecvMsg(&pb.UploadFrameResponse{})
		if d := detailsOf(t, err); d.status.Code() != codes.Aborted || d.info.Reason != apierr.ReasonUploadStalled {
			t.Errorf("%v", err)
		}
		waitFor(t, "the upload to go", func() bool {
			return s.residents.Totals().Totals == residents.Totals{} && s.dev.Memory().Used == 0
		})
	}
}

// An upload that waits for the device doesn't stall.
func TestUploadFrameWaits(t *testing.T) {
	h := newHooked()
	const stall = 500 * time.Millisecond
	s := start(t, Config{Driver: h, Streams: 1, uploadStall: stall})
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	reduced := make(chan error, 1)
	go func() {
		_, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)})
		reduced <- err
	}()
	<-entered
	go func() {
		defer close(leave)
		for end := time.Now().Add(patience); s.dev.Current().Sched()[kernels.Interactive].Waiting == 0 &&
			time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(stall + 50*time.Millisecond)
	}()
	if _, err := s.frameClient().upload(t.Context(), noisyFrame(30, 20, 1), 600); err != nil {
		t.Error(err)
	}
	if err := <-reduced; err != nil {
		t.Error(err)
	}
}

// An upload whose answer can't be sent leaves nothing: nobody has the name.
func TestUploadFrameUnanswered(t *testing.T) {
	s := start(t, Config{})
	broken := errors.New("the connection is gone")
	stream := &deafStream{ctx: t.Context(), messages: []*pb.UploadFrameRequest{{Frame: noisyFrame(30, 20, 1)}},
		err: broken}
	if err := s.frameService.HandleUploadFrame(stream); !errors.Is(err, broken) {
		t.Error(err)
	}
	if st := s.residents.Totals(); st.Kept != 1 || st.Totals != (residents.Totals{}) || s.dev.Memory().Used != 0 {
		t.Errorf("%+v", st)
	}
}

// deafStream is a stream that brings messages and takes none.
type deafStream struct {
	grpc.ServerStream
	ctx      context.Context
	messages []*pb.UploadFrameRequest
	err      error
}

func (s *deafStream) Context() context.Context { return s.ctx }

func (s *deafStream) RecvMsg(m any) error {
	if len(s.messages) == 0 {
		return io.EOF
	}
	proto.Merge(m.(*wire.Guarded).V.(*framecodec.Message).Message, s.messages[0])
	s.messages = s.messages[1:]
	return nil
}

func (s *deafStream) SendMsg(any) error { return s.err }

// BenchmarkReduceResident is one call over TCP on a frame of 5 MB that is sent with it, or that the server keeps. The
// recipe's regions are prepared.
func BenchmarkReduceResident(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(map[bool]string{false: "sent", true: "kept"}[kept], func(b *testing.B) {
			s := start(b, Config{})
			conn := listen(b, s, "tcp")
			req := benchRequest()
			s.put(b, "star", req.Inspection.GetRegionSet().GetRegions()[0])
			req.Inspection.Regions = byRecipe("star").Regions
			if kept {
				res, err := pb.NewFrameServiceClient(conn).PutFrame(b.Context(), &pb.PutFrameRequest{Frame: req.Frame})
				if err != nil {
					b.Fatal(err)
				}
				req.Frame = keptFrame(res.GetFrame().GetName())
			}
			m := framecodec.New(req)
			b.ResetTimer()
			for b.Loop() {
				err := conn.Invoke(b.Context(), pb.InspectionService_Reduce_FullMethodName, m, &pb.ReduceResponse{},
					grpc.ForceCodecV2(framecodec.Codec()))
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Buffers of the transport go back once, and not before the pixels are on the device.
func TestFrameBuffersFreedOnce(t *testing.T) {
	pool := &poisonPool{out: map[*byte]bool{}}
	s := start(t, Config{MemoryBytes: 16 << 20, grpcOptions: []grpc.ServerOption{experimental.BufferPool(pool)}},
		frameCodec())
	c := s.frameClient()
	const w, h = 500, 400
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 6 {
				f := noisyFrame(w, h, uint64(10*i+k))
				want := uint64(0)
				for _, v := range f.GetData() {
					want += uint64(v)
				}
				name, err := c.upload(t.Context(), f, 70_000)
				if k%2 == 0 {
					var res *pb.PutFrameResponse
					res, err = c.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: f})
					name = res.GetFrame().GetName()
				}
				if err != nil {
					t.Error(err)
					return
				}
				res, err := s.inspection.Reduce(t.Context(),
					&pb.ReduceRequest{Inspection: inspecting(rect("all", 0, 0, w, h)), Frame: keptFrame(name)})
				if err != nil || res.GetResult().GetRegions()[0].GetChannels()[0].GetSum() != want {
					t.Errorf("%v, %v, want %d: a buffer was freed too early", res, err, want)
				}
				c.release(t, name)
				// Refused.
				f.Layout.Width++
				if _, err := c.PutFrame(t.Context(),
					&pb.PutFrameRequest{Frame: f}); status.Code(err) != codes.InvalidArgument {
					t.Error(err)
				}
				f.Layout.Width -= 2
				if _, err := c.upload(t.Context(), f, 70_000); status.Code(err) != codes.InvalidArgument {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.stop(t)
	if gets, out, twice := pool.state(); gets < 100 || out != 0 || twice != 0 {
		t.Errorf("%d buffers, %d did not come back, %d came back twice", gets, out, twice)
	}
}
