package clients

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// deafFrames never reads an upload.
type deafFrames struct {
	polyscanv1.UnimplementedFrameServiceServer
}

func (deafFrames) UploadFrame(s polyscanv1.FrameService_UploadFrameServer) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// notify is zeros that call f once n bytes have been read.
type notify struct {
	n int
	f func()
}

func (r *notify) Read(b []byte) (int, error) {
	if r.n > 0 && r.n <= len(b) {
		defer r.f()
	}
	r.n -= len(b)
	return len(b), nil
}

// An upload ends with its connection, whatever of it the transport still has: pieces that wait for the server to read
// never come back.
func TestUploadFrameKilled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	polyscanv1.RegisterFrameServiceServer(server, deafFrames{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conns := make(chan net.Conn, 10)
	c, err := Dial(l.Addr().String(),
		WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				conns <- conn
			}
			return conn, err
		})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	pixels := &notify{2 * uploadPiece, func() {
		time.AfterFunc(20*time.Millisecond, func() { (<-conns).Close() }) // mostly while the second piece waits
	}}
	_, err = c.UploadFrame(ctx, Raw{Width: 4096, Height: 4096, Format: Gray8}, pixels, 0)
	if e := AsError(err); e == nil || e.Code != codes.Unavailable {
		t.Errorf("%v", err)
	}
}
