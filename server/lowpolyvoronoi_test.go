package server

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestVoronoi(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	for _, x := range devicetest.Diagrams(8, 10, 3000) {
		var sites []clients.Point
		for _, p := range x.Sites {
			sites = append(sites, clients.Point(p))
		}
		want := devicetest.NearestSites(x.Sites, x.Width, x.Height)
		for m := range pb.VoronoiMethod_name {
			got, err := c.Voronoi(context.Background(), sites, x.Width, x.Height, pb.VoronoiMethod(m),
				pb.WorkClass_WORK_CLASS_BATCH)
			if err != nil {
				t.Errorf("%s: %v", x.Name, err)
				continue
			}
			diff := devicetest.CompareLabels(got.Labels, want, x.Width)
			if diff != nil && (pb.VoronoiMethod(m) != pb.VoronoiMethod_VORONOI_METHOD_JUMP_FLOOD ||
				diff.Count*20 > len(want)) {
				t.Errorf("%v: %s: %v", pb.VoronoiMethod(m), x.Name, diff)
			}
			if got.Backend != ts.dev.Info().Backend {
				t.Errorf("backend %q", got.Backend)
			}
		}
	}
}

// The protocol's methods are the driver's.
func TestVoronoiMethods(t *testing.T) {
	for m, name := range pb.VoronoiMethod_name {
		want := "VORONOI_METHOD_" + driver.VoronoiMethod(m).String()
		if m == 0 {
			want = "VORONOI_METHOD_UNSPECIFIED"
		}
		if name != want {
			t.Errorf("%d is %s, %s in package driver", m, name, want)
		}
	}
	for m, name := range pb.ShadeMethod_name {
		if want := "SHADE_METHOD_" + driver.ShadeMethod(m).String(); m != 0 && name != want {
			t.Errorf("%d is %s, %s in package driver", m, name, want)
		}
	}
}

func TestVoronoiRefuses(t *testing.T) {
	ts := start(t, Config{MaxPoints: 100_000, MemoryBytes: 2 << 20, MaxMessageBytes: 4 << 20})
	rpc := pb.NewLowPolyServiceClient(ts.conn)
	site := func(x, y int32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(x)), uint32(y))
	}
	for _, x := range []struct {
		req  *pb.VoronoiRequest
		code codes.Code
		says string
	}{
		{&pb.VoronoiRequest{Height: 5}, codes.InvalidArgument, "width = 0: must be 1 to"},
		{&pb.VoronoiRequest{Width: 5, Height: 2 << 20}, codes.InvalidArgument, "height"},
		{&pb.VoronoiRequest{Width: 2000, Height: 2000}, codes.InvalidArgument, "makes 16000000 bytes of labels"},
		{&pb.VoronoiRequest{Width: 900, Height: 900}, codes.ResourceExhausted, "voronoi needs"},
		{&pb.VoronoiRequest{Width: 5, Height: 5, Sites: make([]byte, 12)}, codes.InvalidArgument,
			"sites = 12: must be a multiple of 8"},
		{&pb.VoronoiRequest{Width: 5, Height: 5, Sites: make([]byte, 8*100_001)}, codes.InvalidArgument,
			"sites = 800008"},
		{&pb.VoronoiRequest{Width: 5, Height: 5, Sites: site(4, 5)}, codes.InvalidArgument,
			"sites[0].y = 5: must be 0 to 4"},
		{&pb.VoronoiRequest{Width: 5, Height: 5, Method: 9}, codes.InvalidArgument, "method"},
		{&pb.VoronoiRequest{Width: 5, Height: 5, WorkClass: 9}, codes.InvalidArgument, "work_class"},
		{&pb.VoronoiRequest{Width: 1000, Height: 1000, Method: 1, Sites: make([]byte, 8*90_000)}, codes.InvalidArgument,
			"would compare 1000000 pixels with 90000 sites"},
	} {
		_, err := rpc.Voronoi(context.Background(), x.req)
		if status.Code(err) != x.code || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %v with %q", err, x.code, x.says)
		}
	}
	ts.background.Wait()
	ts.idleHost(t)
}
