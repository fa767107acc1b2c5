package browser

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// A device that is lost is said on every page, and that it is back as well.
func TestBrowserLostDevice(t *testing.T) {
	d := &losing{Driver: cpu.New(cpu.Options{Threads: 2}), back: make(chan struct{})}
	d.lose.Store(true)
	s, err := server.New(server.Config{Driver: d, MemoryBytes: 64 << 20, Console: true})
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	rpc, web := listen(), listen()
	h := s.HTTPServer()
	go s.Serve(rpc)
	go h.Serve(server.HTTPListener(web, h))
	t.Cleanup(func() {
		d.isBack()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	b := (&served{grpc: rpc.Addr().String(), http: "http://" + web.Addr().String()}).tab(t)
	b.goTo("/device")
	b.await(`document.querySelector("header .state")?.dataset.state === "good"`)
	conn, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewInspectionServiceClient(conn).Reduce(t.Context(), badCall("")); status.Code(err) != codes.Unavailable {
		t.Fatalf("the call that lost the device: %v", err)
	}
	lost := `document.querySelector("header .state")?.textContent === "Device lost" &&
		document.querySelector(".banner").checkVisibility() && document.querySelector(".banner").textContent.includes("The device is lost")`
	b.await(lost)
	b.has(".headline", "The device is lost")
	b.axeAll("lost")
	for _, page := range []string{"/live", "/recipe", "/history", "/studio"} {
		b.goTo(page)
		b.await(lost)
	}
	b.goTo("/device")
	b.await(lost)
	d.isBack()
	b.await(`document.querySelector("header .state").dataset.state === "good" &&
		!document.querySelector(".banner").checkVisibility()`)
	b.await(`[...document.querySelectorAll(".facts div")].some(d =>
		d.querySelector("dt").textContent === "Times lost and opened again" && d.querySelector("dd").textContent === "1")`)
}

// losing is a driver whose device is lost by the first reduction, and comes back when it is told to.
type losing struct {
	driver.Driver
	lose   atomic.Bool // the next reduction loses it
	opened atomic.Int32
	once   atomic.Bool
	back   chan struct{}
}

func (d *losing) isBack() {
	if !d.once.Swap(true) {
		close(d.back)
	}
}

func (d *losing) Open(n int) (driver.Device, error) {
	if d.opened.Add(1) > 1 {
		<-d.back
	}
	dev, err := d.Driver.Open(n)
	return losingDevice{dev, d}, err
}

type losingDevice struct {
	driver.Device
	of *losing
}

func (d losingDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return losingStream{s, d.of}, err
}

type losingStream struct {
	driver.Stream
	of *losing
}

func (s losingStream) Run(op driver.Op) error {
	if _, ok := op.(*driver.MaskReduce); ok && s.of.lose.Swap(false) {
		return driver.ErrDeviceLost
	}
	return s.Stream.Run(op)
}

// The page Device shows how the history keeps up, and calls that have no verdict, with what became of them.
func TestBrowserDeviceShowsCalls(t *testing.T) {
	s := serve(t, "", "--history", t.TempDir())
	b := s.tab(t)
	b.goTo("/device")
	b.has(".history .headline", "What happens is kept.")
	b.has(".calls .empty", "None yet")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewLowPolyServiceClient(conn).Convert(t.Context(), &pb.ConvertRequest{Frame: badCall("").GetFrame()}); err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewDiffusionServiceClient(conn).Solve(t.Context(), &pb.SolveRequest{}); err == nil {
		t.Fatal("nothing is solved")
	}
	b.has("#calls th", "LowPolyService/Convert")
	b.await(`[...document.querySelectorAll("#calls tbody tr")].some(r => r.textContent.startsWith("DiffusionService/Solve11"))`)
	c := b.camera("camera-3", "")
	c.frame("A", 100)
	b.await(`[...document.querySelectorAll(".history .facts div")].some(d => d.textContent === "Parts1")`)
	b.axeAll("device-calls")
}
