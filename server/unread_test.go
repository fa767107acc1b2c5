package server

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// An answer that its client does not read waits in the queue of grpc-go until the connection ends. It keeps its share
// of the host's memory for as long, and the server ends the connection when a client has not read for the time of
// idle streams.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		side   uint32 // pixels: of up to a megabyte nothing is taken of the ledger before it is made
		limit  time.Duration
		closes bool // the client does
	}{{"the server ends the connection", 1200, 100 * time.Millisecond, false},
		{"the client ends it", 1200, time.Hour, true},
		{"the server ends that of a small one", 600, 100 * time.Millisecond, false},
		{"the client ends that of a small one", 600, time.Hour, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			ts := start(t, Config{StreamIdleTimeout: x.limit})
			conn, err := ts.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ended := make(chan struct{})
			go func() { // the server sends settings and pings
				defer close(ended)
				for fr := http2.NewFramer(nil, conn); ; {
					if _, err := fr.ReadFrame(); err != nil {
						return
					}
				}
			}()
			message, err := proto.Marshal(&pb.RasterizeRequest{Regions: &pb.RasterizeRequest_RegionSet{
				RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("a", 0, 0, float64(x.side), float64(x.side))}}},
				Width: x.side, Height: x.side, Encoding: pb.Encoding_ENCODING_RAW})
			if err != nil {
				t.Fatal(err)
			}
			var headers bytes.Buffer
			encoder := hpack.NewEncoder(&headers)
			for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "test"},
				{":path", pb.InspectionService_Rasterize_FullMethodName}, {"content-type", "application/grpc"},
				{"te", "trailers"}} {
				if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
					t.Fatal(err)
				}
			}
			var sent bytes.Buffer
			sent.WriteString(http2.ClientPreface)
			fr := http2.NewFramer(&sent, nil)
			for _, err := range []error{
				fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), // nothing is read of a stream
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}),
				fr.WriteData(1, true, append([]byte{0, 0, 0, 0, byte(len(message))}, message...)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := conn.Write(sent.Bytes()); err != nil {
				t.Fatal(err)
			}
			held := func() float64 { return metric(t, ts, "polyscan_host_memory_bytes", "kind", "results") }
			if x.closes {
				waitFor(t, "the answer in the ledger", func() bool { return held() >= float64(x.side*x.side) })
				conn.Close()
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("the connection did not end")
			}
			waitFor(t, "the memory of the answer to come back", func() bool { return held() == 0 })
			ts.idleHost(t)
			want := 1.0
			if x.closes {
				want = 0
			}
			if n := metric(t, ts, "polyscan_connections_closed_total", "reason", "unread"); n != want {
				t.Errorf("%v connections closed because an answer was not read, want %v", n, want)
			}
		})
	}
}
