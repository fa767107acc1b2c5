package clients_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// connectTo is a client of a server that ends with the test.
func connectTo(t *testing.T) *clients.Client {
	t.Helper()
	addr, stop := start()
	t.Cleanup(stop)
	c, err := clients.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sumOf(t *testing.T, c *clients.Client, f *polyscanv1.Frame) uint64 {
	t.Helper()
	res, err := c.Reduce(t.Context(), clients.UseRegions(clients.Polygon("all", 0, 0, 1e6, 0, 1e6, 1e6, 0, 1e6)), f)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRegions()[0].GetChannels()[0].GetSum()
}

func TestResidentFrames(t *testing.T) {
	c := connectTo(t)
	ctx := t.Context()
	r := clients.Raw{Width: 1500, Height: 2100, Format: clients.Gray8, Stride: 1510, ID: "board 7"}
	n, err := r.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, n)
	want := uint64(0)
	for i := range pix {
		pix[i] = byte(i * i >> 3)
		if i%1510 < 1500 {
			want += uint64(pix[i])
		}
	}
	put, err := c.PutFrame(ctx, r.Frame(pix), 0)
	if err != nil {
		t.Fatal(err)
	}
	// In pieces, from a reader that gives as little as it may, and has more than is asked for.
	more := bytes.NewReader(append(slices.Clone(pix), "more"...))
	uploaded, err := c.UploadFrame(ctx, r, iotest.HalfReader(more), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if more.Len() != 4 {
		t.Errorf("%d bytes are left", more.Len())
	}
	clear(pix)
	for _, f := range []*polyscanv1.ResidentFrame{put, uploaded} {
		if got := sumOf(t, c, clients.Resident(f.GetName())); got != want || f.GetFrameId() != r.ID {
			t.Errorf("%v: sum %d, want %d", f, got, want)
		}
	}
	if life := uploaded.GetExpiresAt().AsTime().Sub(uploaded.GetUsedAt().AsTime()); life != time.Minute {
		t.Errorf("expires after %v", life)
	}
	before, err := c.GetFrame(ctx, put.GetName(), false)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := c.GetFrame(ctx, put.GetName(), true); err != nil ||
		!after.GetUsedAt().AsTime().After(before.GetUsedAt().AsTime()) {
		t.Errorf("touched: %v, %v", after, err)
	}
	var names []string
	for f, err := range c.Frames(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.GetName())
	}
	if want := []string{put.GetName(), uploaded.GetName()}; len(names) != 2 || !slices.Contains(names, want[0]) ||
		!slices.Contains(names, want[1]) {
		t.Errorf("%v, want %v", names, want)
	}
	for range c.Frames(ctx) {
		break
	}
	for _, name := range names {
		if err := c.ReleaseFrame(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if err := c.ReleaseFrame(ctx, names[0]); clients.AsError(err) == nil ||
		clients.AsError(err).Code != codes.NotFound || !strings.Contains(err.Error(), "released") {
		t.Errorf("released twice: %v", err)
	}
}

// Uploads that can't be finished say why, and leave nothing on the server.
func TestUploadFrameFails(t *testing.T) {
	c := connectTo(t)
	r := clients.Raw{Width: 3000, Height: 1000, Format: clients.Gray8}
	broken := errors.New("the disk is gone")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	large := clients.Raw{Width: 1 << 17, Height: 1 << 13, Format: clients.Gray8}
	for _, x := range []struct {
		name string
		ctx  context.Context
		raw  clients.Raw
		from io.Reader
		want func(error) bool
	}{
		{"ends early", t.Context(), r, bytes.NewReader(make([]byte, 2_500_000)), func(err error) bool {
			return errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "2500000 of 3000000 bytes")
		}},
		{"fails", t.Context(), r, io.MultiReader(bytes.NewReader(make([]byte, 100)), iotest.ErrReader(broken)),
			func(err error) bool { return errors.Is(err, broken) }},
		{"no frame", t.Context(), clients.Raw{Width: 3}, nil, func(err error) bool {
			return strings.Contains(err.Error(), "pixel format")
		}},
		{"cancelled", ended, r, bytes.NewReader(make([]byte, 3_000_000)), func(err error) bool {
			return errors.Is(err, context.Canceled)
		}},
		{"refused", t.Context(), large, zeros{}, func(err error) bool {
			e := clients.AsError(err)
			return e != nil && e.Code == codes.InvalidArgument &&
				strings.Contains(err.Error(), "the limit is 268435456")
		}},
	} {
		if f, err := c.UploadFrame(x.ctx, x.raw, x.from, 0); err == nil || !x.want(err) {
			t.Errorf("%s: %v, %v", x.name, f, err)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		d, err := c.GetDevice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.GetMemory().GetUsedBytes() == 0 && d.GetResidentFrames().GetFrames() == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", d)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
