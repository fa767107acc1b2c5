package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// A device that is lost and can't be opened again ends the process, with an error that is not one of the start.
func TestLostDeviceEndsRun(t *testing.T) {
	d := &losing{Driver: cpu.New(cpu.Options{Threads: 1})}
	newServer = func(cfg server.Config) (*server.Server, error) {
		cfg.Driver, cfg.MemoryBytes = d, 1<<20
		return server.New(cfg)
	}
	defer func() { newServer = server.New }()
	socket := filepath.Join(t.TempDir(), "s")
	f, _, _, err := parse(t, "--listen", "unix:"+socket, "--shutdown-timeout", "10s")
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Run(context.Background(), "polyscand", &f, io.Discard, &logs, nil) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = pb.NewInspectionServiceClient(conn).Reduce(ctx, &pb.ReduceRequest{
		Inspection: &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{
			Regions: []*pb.Region{{Rings: []*pb.Ring{{Xy: []float64{0, 0, 2, 0, 2, 2}}}}},
		}}},
		Frame: &pb.Frame{
			Layout: &pb.FrameLayout{Width: 2, Height: 2, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
			Source: &pb.Frame_Data{Data: make([]byte, 4)},
		},
	}, grpc.WaitForReady(true))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the call that lost the device: %v", err)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		t.Fatal("Run goes on without a device")
	}
	if !errors.Is(err, driver.ErrDeviceLost) || !errors.Is(err, driver.ErrNoDevice) || errors.Is(err, ErrStart) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(logs.String(), "gone for good") {
		t.Errorf("the log doesn't say so:\n%s", &logs)
	}
}

// losing is a driver whose device is lost by the first reduction, and can't be opened a second time.
type losing struct {
	driver.Driver
	opened atomic.Bool
}

func (d *losing) Open(n int) (driver.Device, error) {
	if d.opened.Swap(true) {
		return nil, driver.ErrNoDevice
	}
	dev, err := d.Driver.Open(n)
	return losingDevice{dev}, err
}

type losingDevice struct{ driver.Device }

func (d losingDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return losingStream{s}, err
}

type losingStream struct{ driver.Stream }

func (s losingStream) Run(op driver.Op) error {
	if _, ok := op.(*driver.MaskReduce); ok {
		return driver.ErrDeviceLost
	}
	return s.Stream.Run(op)
}
