// Config: what a server can be told, and the defaults.

package server

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/drivers"
)

// Config says how a server runs. The zero value works: the best device of the build, no TLS, no token, recipes in
// memory. A number of 0 has its default; negative numbers are errors.
type Config struct {
	// Device is the backend: "auto" (the default), or one of drivers.Names. Driver, when set, is used instead.
	Device string
	Driver driver.Driver
	// Ordinal of the device, from 0.
	Ordinal int
	// Threads that an op of the CPU may use; default GOMAXPROCS.
	Threads int
	// MemoryBytes to reserve on the device; default 1 GiB on the CPU, 80 % of what is free on a GPU.
	MemoryBytes int64
	// Streams is how many interactive jobs run on the device at the same time; default 4. LineScanStreams and
	// BatchStreams are that for line-scan sessions (default 4) and batch jobs (default 2), which run beside those: no
	// job waits for a stream that one of another class has.
	Streams, LineScanStreams, BatchStreams int
	// MaxWaiting is how many jobs may wait for the device; beyond that it refuses batch jobs, then interactive ones.
	// Default 256.
	MaxWaiting int

	// Bounds of sets of regions.
	Bounds polygon.Bounds
	// MaxMessageBytes bounds a request, and what an image decodes to; default 256 MiB.
	MaxMessageBytes int64
	// MaxFramePixels bounds frames and rasterised images; default 2^28.
	MaxFramePixels int64
	// MaxPoints bounds the points of a triangulation, the vertices of a conversion, the sites of a Voronoi diagram, and
	// what is in a drawing: points of curves, their stops, and pixels; on a canvas those of all curves, and the pixels
	// of a change. Default 10,000,000. On the device each takes about 150 bytes.
	MaxPoints int
	// MaxStreams bounds the concurrent calls of a connection; default 100.
	MaxStreams int
	// MaxConnections bounds the connections of each listener; those beyond wait to be accepted. Default: no bound.
	MaxConnections int
	// StreamDepth is how many frames of one StreamFrames or ConvertFrames call the server holds, from the one that
	// arrives to the one whose result is being sent; default 3.
	StreamDepth int
	// StreamIdleTimeout is for how long a client may say nothing while its canvas is open, and take no answer that
	// waits for it, in any stream, before the call ends; and for how long it may send no frame before a ConvertFrames
	// call begins anew, as with a first one. Default 10 minutes. Line-scan sessions and uploads have limits of their
	// own.
	StreamIdleTimeout time.Duration
	// HostBytes is the host memory that may go into decoding image files, rasterised images, drawings and large results
	// at the same time; calls wait for their share. Canvases, which keep it while they are open, may have three
	// quarters, and don't wait. A line-scan session whose strips under way could take more is refused. Default 1 GiB,
	// and four times MaxMessageBytes at least.
	HostBytes int64
	// PreparedBytes is the device memory in which prepared regions of recipes and streams are kept for the next frame;
	// default a quarter of the device's memory.
	PreparedBytes int64
	// SetupBytes is the device memory in which set-ups of diffusion are kept for constraints that come again, as long
	// as nothing else needs it; default half of the device's memory. 1 keeps none.
	SetupBytes int64

	// MaxFrames bounds the resident frames; default 10,000. FrameBytes bounds the device memory that they take
	// together; default half of the device's memory. The device evicts those that nobody uses when it needs it.
	MaxFrames  int
	FrameBytes int64
	// FrameIdleTimeout is after how long without use a resident frame goes whose client did not say; default 10
	// minutes. MaxFrameIdleTimeout is the most that clients may ask for; default 24 hours.
	FrameIdleTimeout, MaxFrameIdleTimeout time.Duration
	// FrameCopyBytes is the host memory for copies of resident frames, from which they are put back when the device was
	// lost and has been opened again; frames that find no room there are lost with it. Default FrameBytes, and none on
	// the CPU, which isn't lost. NoFrameCopies makes it none anywhere.
	FrameCopyBytes int64
	NoFrameCopies  bool

	// SharedMemoryListener is a unix socket, on Linux, over which clients on the same host get memory to put frames
	// into; see pb.SharedMemoryService. Default: there is none. New sets its mode, 0600, or 0666 with SharedMemoryUIDs;
	// Shutdown closes it. Clients must see it under the path that it has here, so a container needs the same path
	// outside.
	SharedMemoryListener *net.UnixListener
	// SharedMemoryBytes bounds all leases of it together; it is taken from the system only when it is leased. Default
	// 1 GiB.
	SharedMemoryBytes int64
	// SharedMemoryUIDs are the users whose programs may have some, by the credentials of their connection to the
	// socket. The user of this process and root may anyway.
	SharedMemoryUIDs []uint32

	// ScanSessions bounds the line-scan sessions, those between two connections included; default 256.
	ScanSessions int
	// ScanCreditBytes is how many bytes of strips a line-scan client may have under way; default 4 MiB, and four strips
	// at least, beside those that wait for a missing one.
	ScanCreditBytes int
	// ScanUnreadBytes is how much results and events take that a line-scan client has not read, or may ask for again
	// after its connection broke; default 512 KiB. A client that leaves more than that is cut off.
	ScanUnreadBytes int
	// ScanParts bounds the parts of a session that are under way at the same time; default 1,024.
	ScanParts int
	// ScanResumeWindow is how long a line-scan session outlives its connection; default 30 s.
	ScanResumeWindow time.Duration
	// ScanDrainTime is how long line-scan clients may go on when the server shuts down; then what they have sent is
	// finished. Default 2 s.
	ScanDrainTime time.Duration

	// RecipeDir is where recipes are stored; "" keeps them in memory. One server at a time may use a directory.
	RecipeDir string
	// MaxRecipes bounds the stored versions; default 10,000. MaxRecipeBytes bounds their size together, as messages;
	// default 1 GiB.
	MaxRecipes     int
	MaxRecipeBytes int64

	// TLS is off unless CertFile is set.
	TLS TLS
	// TokenFile holds bearer tokens, one a line; empty lines and lines that start with # don't count. Each call but
	// those of the health service must bring one of them as "authorization: Bearer TOKEN". The file is read again when
	// it changes. Without TLS tokens travel in the clear: the server warns and serves.
	TokenFile string

	// NoReflection and NoChannelz leave these services out.
	NoReflection bool
	NoChannelz   bool

	// Logger gets what the server has to say; default nothing.
	Logger *slog.Logger
	// Registerer gets the metrics; default a registry of the server's own. If it can't gather (a
	// *prometheus.Registry can), /metrics shows the default gatherer's.
	Registerer prometheus.Registerer
	// Version is reported to clients; default the version of the module that was built.
	Version string

	grpcOptions []grpc.ServerOption // of tests
}

// The defaults of [Config].
const (
	DefaultMaxMessageBytes   = 256 << 20
	DefaultMaxFramePixels    = 1 << 28
	DefaultMaxStreams        = 100
	DefaultStreamDepth       = 3
	DefaultHostBytes         = 1 << 30
	DefaultSharedMemoryBytes = 1 << 30
	DefaultMaxFrames         = 10_000
	DefaultMaxPoints         = 10_000_000
	DefaultScanSessions      = 256
	DefaultScanCreditBytes   = 4 << 20
	DefaultScanUnreadBytes   = 512 << 10
	DefaultScanParts         = 1024
	DefaultScanResumeWindow  = 30 * time.Second
	DefaultScanDrainTime     = 2 * time.Second
	DefaultMaxRecipes        = 10_000
	DefaultMaxRecipeBytes    = 1 << 30
)

// The defaults of [Config] that are times.
const (
	DefaultStreamIdleTimeout   = 10 * time.Minute
	DefaultFrameIdleTimeout    = 10 * time.Minute
	DefaultMaxFrameIdleTimeout = 24 * time.Hour
)

// withDefaults checks c and fills in what is 0.
func (c Config) withDefaults() (Config, error) {
	for _, n := range []struct {
		name  string
		value int64
		max   int64
	}{
		{"Ordinal", int64(c.Ordinal), 1 << 16},
		{"Threads", int64(c.Threads), 1 << 16},
		{"MemoryBytes", c.MemoryBytes, 1 << 62},
		{"Streams", int64(c.Streams), 256},
		{"LineScanStreams", int64(c.LineScanStreams), 256},
		{"BatchStreams", int64(c.BatchStreams), 256},
		{"MaxWaiting", int64(c.MaxWaiting), 1 << 20},
		{"Bounds.MaxRegions", int64(c.Bounds.MaxRegions), 1 << 31},
		{"Bounds.MaxVertices", int64(c.Bounds.MaxVertices), 1 << 31},
		{"Bounds.MaxRegionVertices", int64(c.Bounds.MaxRegionVertices), 1 << 31},
		{"MaxMessageBytes", c.MaxMessageBytes, 1<<31 - 1}, // protobuf's own
		{"MaxFramePixels", c.MaxFramePixels, driver.MaxPixels},
		{"MaxStreams", int64(c.MaxStreams), 1 << 31},
		{"MaxConnections", int64(c.MaxConnections), 1 << 31},
		{"StreamDepth", int64(c.StreamDepth), 256},
		{"StreamIdleTimeout", int64(c.StreamIdleTimeout), math.MaxInt64},
		{"HostBytes", c.HostBytes, 1 << 62},
		{"PreparedBytes", c.PreparedBytes, 1 << 62},
		{"SetupBytes", c.SetupBytes, 1 << 62},
		{"MaxFrames", int64(c.MaxFrames), 1 << 31},
		{"FrameBytes", c.FrameBytes, 1 << 62},
		{"FrameIdleTimeout", int64(c.FrameIdleTimeout), math.MaxInt64},
		{"MaxFrameIdleTimeout", int64(c.MaxFrameIdleTimeout), math.MaxInt64},
		{"FrameCopyBytes", c.FrameCopyBytes, 1 << 62},
		{"SharedMemoryBytes", c.SharedMemoryBytes, 1 << 62},
		{"MaxPoints", int64(c.MaxPoints), driver.MaxPoints},
		{"ScanSessions", int64(c.ScanSessions), 1 << 20},
		{"ScanCreditBytes", int64(c.ScanCreditBytes), 1<<31 - 1},
		{"ScanUnreadBytes", int64(c.ScanUnreadBytes), 1<<31 - 1},
		{"ScanParts", int64(c.ScanParts), 1 << 16},
		{"ScanResumeWindow", int64(c.ScanResumeWindow), int64(24 * time.Hour)},
		{"ScanDrainTime", int64(c.ScanDrainTime), int64(time.Hour)},
		{"MaxRecipes", int64(c.MaxRecipes), 1 << 31},
		{"MaxRecipeBytes", c.MaxRecipeBytes, 1 << 62},
	} {
		if n.value < 0 || n.value > n.max {
			return c, fmt.Errorf("server: Config.%s = %d: must be 0 to %d", n.name, n.value, n.max)
		}
	}
	orElse(&c.Bounds.MaxRegions, polygon.DefaultMaxRegions)
	orElse(&c.Bounds.MaxVertices, polygon.DefaultMaxVertices)
	orElse(&c.Bounds.MaxRegionVertices, polygon.DefaultMaxRegionVertices)
	orElse(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	orElse(&c.MaxFramePixels, DefaultMaxFramePixels)
	orElse(&c.MaxStreams, DefaultMaxStreams)
	orElse(&c.StreamDepth, DefaultStreamDepth)
	orElse(&c.StreamIdleTimeout, DefaultStreamIdleTimeout)
	orElse(&c.HostBytes, max(DefaultHostBytes, 4*c.MaxMessageBytes))
	orElse(&c.MaxFrames, DefaultMaxFrames)
	orElse(&c.MaxFrameIdleTimeout, max(DefaultMaxFrameIdleTimeout, c.FrameIdleTimeout))
	orElse(&c.FrameIdleTimeout, min(DefaultFrameIdleTimeout, c.MaxFrameIdleTimeout))
	if c.FrameIdleTimeout > c.MaxFrameIdleTimeout {
		return c, fmt.Errorf("server: Config.FrameIdleTimeout = %v: must be at most MaxFrameIdleTimeout, %v",
			c.FrameIdleTimeout, c.MaxFrameIdleTimeout)
	}
	orElse(&c.SharedMemoryBytes, DefaultSharedMemoryBytes)
	orElse(&c.MaxPoints, DefaultMaxPoints)
	orElse(&c.ScanSessions, DefaultScanSessions)
	orElse(&c.ScanCreditBytes, DefaultScanCreditBytes)
	orElse(&c.ScanUnreadBytes, DefaultScanUnreadBytes)
	orElse(&c.ScanParts, DefaultScanParts)
	orElse(&c.ScanResumeWindow, DefaultScanResumeWindow)
	orElse(&c.ScanDrainTime, DefaultScanDrainTime)
	orElse(&c.MaxRecipes, DefaultMaxRecipes)
	orElse(&c.MaxRecipeBytes, DefaultMaxRecipeBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = buildVersion()
	}
	return c, nil
}

// uploadStall is how long an upload of a frame may bring no pixels, and one of points no points.
const uploadStall = time.Minute

// frameLimits are the bounds of resident frames on a device.
func (c Config) frameLimits(dev driver.Info) frameLimits {
	orElse(&c.FrameBytes, dev.MemoryBytes/2)
	switch {
	case c.NoFrameCopies:
		c.FrameCopyBytes = 0
	case dev.Backend != "cpu":
		orElse(&c.FrameCopyBytes, c.FrameBytes)
	}
	return frameLimits{
		frameTotals: frameTotals{count: c.MaxFrames, bytes: c.FrameBytes, copies: c.FrameCopyBytes},
		idle:        c.FrameIdleTimeout, maxIdle: c.MaxFrameIdleTimeout,
		stall: uploadStall,
	}
}

func orElse[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// modulePath is the module that buildVersion looks for.
const modulePath = "github.com/polyscan/polyscan"

// buildVersion is the module's version as the build recorded it: a tag, a pseudo-version, or "(devel)".
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == modulePath {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == modulePath {
			return d.Version
		}
	}
	return "unknown"
}

// goVersion is what the server was built with.
func goVersion() string { return runtime.Version() }

// Version says what this build of the server is: its version, that of Go, and its backends.
func Version() string {
	return fmt.Sprintf("polyscan %s, %s, backends %s", buildVersion(), goVersion(), strings.Join(drivers.Names(), ", "))
}
