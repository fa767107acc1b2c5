// Config: what a server can be told, and the defaults.

package server

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/residents"
	"github.com/polyscan/polyscan/server/internal/setting"
)

// ConfigSource is the source of [Config]: the first paragraph of the comment above a field is the help of its flag.
//
//go:embed config.go tls.go
var ConfigSource embed.FS

// Config says how a server runs. The zero value works: the best device of the build, no TLS, no token, recipes in
// memory. A number of 0 has its default; a number out of its bounds is an error. The tags are those of
// server/internal/setting and of kong, for server/daemon.
type Config struct {
	// Where to compute: auto takes a GPU where the build and the machine have one, and the CPU otherwise; cpu and cuda
	// take nothing else.
	Device string `default:"auto" group:"Device"`
	// Driver, when set, is used instead of what Device names.
	Driver kernels.Driver `kong:"-"`
	// Which of several GPUs, from 0.
	Ordinal int `max:"65536" group:"Device" without:"device=cpu"`
	// Threads of the CPU that one operation may use. 0 means all.
	//
	// All are GOMAXPROCS.
	Threads int `max:"65536" group:"Device" without:"device=cuda"`
	// Memory of the device to reserve, such as 2GiB. Default: 1GiB on the CPU, 80% of what is free on a GPU.
	MemoryBytes int64 `name:"memory" type:"size" min:"1MiB" group:"Device"`
	// Interactive jobs that run on the device at the same time. 0 means 4.
	//
	// Line-scan and batch jobs run beside those: no job waits for a stream that one of another class has.
	Streams int `max:"256" group:"Device"`
	// Strips of line-scan sessions that run beside those. 0 means 4.
	LineScanStreams int `max:"256" group:"Device"`
	// Batch jobs that run beside those. 0 means 2.
	BatchStreams int `max:"256" group:"Device"`
	// Longest that interactive work of a call may have the device.
	//
	// Time for which it made way for others does not count. Then the call ends with DEADLINE_EXCEEDED: whoever needs
	// more declares it as batch work.
	LongestRun time.Duration `name:"longest-run" default:"30s" min:"1ms" group:"Device"`
	// Longest that batch work of a call may have the device.
	LongestBatchRun time.Duration `name:"longest-batch-run" default:"10m" min:"1ms" group:"Device"`
	// Jobs that may wait for the device. Beyond that batch jobs are refused, then interactive ones. 0 means 256.
	//
	// They are those of the client that has most of them: clients share the device's time, by class.
	MaxWaiting int `max:"1048576" group:"Device"`

	// Largest request, and largest frame that an image file may decode to.
	//
	// The bound is that of protobuf.
	MaxMessageBytes int64 `name:"max-message" type:"size" default:"256MiB" min:"64KiB" max:"2147483647" group:"Limits"`
	// Most pixels of a frame, of an image that regions are drawn to, and of all masks of a request that are images.
	MaxFramePixels int64 `name:"max-pixels" default:"268435456" max:"536870912" group:"Limits"`
	// Most regions of a request or recipe.
	MaxRegions int `default:"100000" group:"Limits"`
	// Most vertices of a request or recipe.
	MaxVertices int `default:"8388608" min:"3" group:"Limits"`
	// Most vertices of a region.
	MaxRegionVertices int `default:"1048576" min:"3" group:"Limits"`
	// Most points of a triangulation, vertices of a conversion, sites of a Voronoi diagram, and points and stops of a
	// drawing or canvas, with the pixels of one request or change. Each takes 150 bytes of the device's memory.
	MaxPoints int `default:"10000000" max:"268435456" group:"Limits"`
	// Most concurrent calls of one connection.
	MaxStreams int `default:"100" group:"Limits"`
	// Most connections of each listener; those beyond wait to be accepted. 0 means any number.
	MaxConnections int `group:"Limits"`
	// Frames of one stream that are held at the same time.
	//
	// They count from the one that arrives to the one whose result is being sent.
	StreamDepth int `default:"3" max:"256" group:"Limits"`
	// Time that a client may say nothing while its canvas is open, or read nothing that waits for it, before the call
	// ends.
	//
	// It is also how long a client may send no frame before a ConvertFrames call begins anew, as with a first one.
	// Line-scan sessions and uploads have limits of their own.
	StreamIdleTimeout time.Duration `name:"stream-idle" default:"10m" min:"1ms" group:"Limits"`
	// Memory of the host for what calls send, for decoding image files, for drawings and for large results. Default:
	// 1GiB, and 4 times --max-message and twice --recipe-memory at least.
	//
	// Messages may have half of it, while there is room for them beside all else; small ones and strips find some
	// beyond. Calls wait for their share of the rest. While the heap is nearly full, of all that is counted or as
	// GOMEMLIMIT says, batch work gets none, and then interactive work. Canvases, which keep it while they are open,
	// may have three quarters, and don't wait. A line-scan session whose strips under way could take more is refused.
	HostBytes int64 `name:"host-memory" type:"size" min:"1MiB" group:"Limits"`
	// Memory of the device that keeps regions prepared from frame to frame. Default: a quarter.
	PreparedBytes int64 `name:"prepared-memory" type:"size" group:"Limits"`
	// Memory of the device that keeps set-ups of diffusion for constraints that come again, while nothing else needs
	// it; 1B keeps none. Default: half.
	SetupBytes int64 `name:"setup-memory" type:"size" group:"Limits"`

	// Most frames that clients may keep on the device.
	MaxFrames int `default:"10000" group:"Resident frames"`
	// Memory of the device for them. Default: half.
	//
	// The device evicts frames that nobody uses when it needs it.
	FrameBytes int64 `name:"frame-memory" type:"size" min:"256" group:"Resident frames"`
	// Time without use after which a frame goes whose client did not say.
	FrameIdleTimeout time.Duration `name:"frame-idle" default:"10m" min:"1ms" group:"Resident frames"`
	// Most that clients may ask for.
	MaxFrameIdleTimeout time.Duration `name:"max-frame-idle" default:"24h" min:"1ms" group:"Resident frames"`
	// Keep copies in host memory, from which frames are put back when the device was lost. The CPU isn't lost and needs
	// none.
	NoFrameCopies bool `name:"frame-copies" type:"off" default:"true" negatable:"" group:"Resident frames"`
	// Most host memory for copies. Default: as much as --frame-memory.
	//
	// Frames that find no room there are lost with the device.
	FrameCopyBytes int64 `name:"frame-copy-memory" type:"size" group:"Resident frames" without:"device=cpu"`

	// Most line-scan sessions, those between two connections included.
	ScanSessions int `default:"256" max:"1048576" group:"Line-scan"`
	// Strips that a line-scan client may have under way.
	//
	// They are four at least, beside those that wait for a missing one.
	ScanCreditBytes int `name:"scan-credit" type:"size" default:"4MiB" max:"2147483647" group:"Line-scan"`
	// Results that a line-scan client may leave unread before it is cut off.
	//
	// Results and events count that it has not read, or may ask for again after its connection broke.
	ScanUnreadBytes int `name:"scan-unread" type:"size" default:"512KiB" min:"16KiB" max:"2147483647" group:"Line-scan"`
	// Most parts of a session that are under way at the same time.
	ScanParts int `default:"1024" max:"65536" group:"Line-scan"`
	// How long a session outlives its connection.
	ScanResumeWindow time.Duration `name:"scan-resume" default:"30s" min:"1ms" max:"24h" group:"Line-scan"`
	// How long line-scan clients may go on when the server shuts down, before what they have sent is finished.
	ScanDrainTime time.Duration `name:"scan-drain" default:"2s" min:"1ms" max:"1h" group:"Line-scan"`

	// SharedMemoryListener is a unix socket, on Linux, over which clients on the same host get memory to put frames
	// into; see pb.SharedMemoryService. Default: there is none. New sets its mode, 0600, or 0666 with SharedMemoryUIDs;
	// Shutdown closes it. Clients must see it under the path that it has here, so a container needs the same path
	// outside.
	SharedMemoryListener *net.UnixListener `kong:"-"`
	// Most memory that programs on this host get over --shm-socket, all together; it is taken when they ask for it.
	SharedMemoryBytes int64 `name:"shm-memory" type:"size" default:"1GiB" min:"4KiB" group:"Shared memory" needs:"shm-socket"`
	// Numbers of users whose programs may use --shm-socket, beside the server's own user and root, such as 1000,1001.
	//
	// The kernel gives the user of each connection to the socket.
	SharedMemoryUIDs []uint32 `name:"shm-allow-uid" placeholder:"UID" group:"Shared memory" needs:"shm-socket"`

	// Directory that keeps recipes; one server at a time may use it. By default they are lost when the server ends.
	RecipeDir string `name:"recipes" type:"path" placeholder:"DIR" default:"" group:"Recipes"`
	// Most versions of recipes.
	MaxRecipes int `default:"10000" group:"Recipes"`
	// Most of --host-memory for them, half of it at most. Default: a quarter.
	MaxRecipeBytes int64 `name:"recipe-memory" type:"size" min:"1000" group:"Recipes"`

	// Folder that keeps what parts came to, and pictures of those that failed; one server at a time may use it. By
	// default nothing is kept.
	HistoryDir string `name:"history" type:"path" placeholder:"DIR" default:"" group:"History"`
	// How long parts are kept. 0 means without end.
	HistoryAge time.Duration `name:"history-age" min:"1m" max:"876000h" zero:"no end" group:"History" needs:"history"`
	// Most bytes on the disk. Three quarters of it may be pictures; the oldest go first. 0 means any number.
	HistoryBytes int64 `name:"history-bytes" type:"size" min:"16MiB" zero:"any number" group:"History" needs:"history"`
	// Keep the picture of each so many-th part that did not fail, too. 0 means of none.
	HistoryGood int `name:"history-good" placeholder:"N" max:"1000000000" group:"History" needs:"history"`
	// Memory for what waits to be written, and for the pixels of parts under way. What finds no room there is not kept,
	// and counted.
	HistoryMemory int64 `name:"history-memory" type:"size" default:"256MiB" min:"1MiB" group:"History" needs:"history"`

	// TLS is off unless it has a certificate.
	TLS TLS `embed:"" prefix:"tls-" group:"Security"`
	// Bearer tokens and names of client certificates, one a line, with the name, role and limits of their tenant; each
	// call but health checks must bring one of them. Use TLS with it: without, tokens travel in the clear.
	//
	// See docs/server.md for the format. A call brings a token as "authorization: Bearer TOKEN". The file is read again
	// when its content changes: calls end whose token is not in it any more, and all are refused while there is none.
	TokenFile string `type:"path" placeholder:"FILE" default:"" group:"Security"`
	// Serve the console, and calls by browsers and curl, at --http. Without this they are served where that address is
	// local.
	//
	// A Server serves them from its Handler when this is set.
	Console bool `group:"Console"`

	// Serve reflection, for grpcurl and the like.
	NoReflection bool `name:"reflection" type:"off" default:"true" negatable:"" group:"Security"`
	// Serve channelz, for a look at connections.
	NoChannelz bool `name:"channelz" type:"off" default:"true" negatable:"" group:"Security"`

	// Logger gets what the server has to say; default nothing.
	Logger *slog.Logger `kong:"-"`
	// Registerer gets the metrics; default a registry of the server's own. If it can't gather (a
	// *prometheus.Registry can), /metrics shows the default gatherer's.
	Registerer prometheus.Registerer `kong:"-"`
	// Version is reported to clients; default the version of the module that was built.
	Version string `kong:"-"`

	// Of tests, which don't wait as long.
	grpcOptions                              []grpc.ServerOption
	uploadStall, takeBackAfter, fetchTimeout time.Duration
}

// ErrConfig is matched by errors of [New] that come again with the same Config: a number out of its bounds, a file that
// can't be used, a device that isn't there.
var ErrConfig = errors.New("wrong configuration")

type configError struct{ error }

func (e *configError) Is(target error) bool { return target == ErrConfig }
func (e *configError) Unwrap() error        { return e.error }

// withDefaults checks c and fills in what is 0.
func (c Config) withDefaults() (Config, error) {
	if err := setting.Check(&c); err != nil {
		return c, fmt.Errorf("server: %w", err)
	}
	var std Config
	setting.Fill(&std)
	orElse(&c.MaxFrameIdleTimeout, max(std.MaxFrameIdleTimeout, c.FrameIdleTimeout))
	orElse(&c.FrameIdleTimeout, min(std.FrameIdleTimeout, c.MaxFrameIdleTimeout))
	setting.Fill(&c)
	orElse(&c.HostBytes, max(1<<30, 4*c.MaxMessageBytes, 2*c.MaxRecipeBytes))
	orElse(&c.MaxRecipeBytes, c.HostBytes/4)
	if c.MaxRecipeBytes > c.HostBytes/2 {
		return c, fmt.Errorf("server: %w", &setting.BoundError{Path: "MaxRecipeBytes", Name: "recipe-memory",
			Value: setting.FormatSize(c.MaxRecipeBytes), Min: "0",
			Max: setting.FormatSize(c.HostBytes/2) + ", half of host-memory"})
	}
	if c.FrameIdleTimeout > c.MaxFrameIdleTimeout {
		return c, fmt.Errorf("server: %w", &setting.BoundError{Path: "FrameIdleTimeout", Name: "frame-idle",
			Value: c.FrameIdleTimeout.String(), Min: "0s", Max: c.MaxFrameIdleTimeout.String() + ", max-frame-idle"})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = buildVersion()
	}
	return c, nil
}

// bounds are those of sets of regions.
func (c *Config) bounds() polygon.Bounds {
	return polygon.Bounds{MaxRegions: c.MaxRegions, MaxVertices: c.MaxVertices, MaxRegionVertices: c.MaxRegionVertices}
}

// messageBytes is what large messages may take that are received or under way: half of what there is, and room for two
// of the largest.
func (c *Config) messageBytes() int64 { return max(c.HostBytes/2, 2*c.MaxMessageBytes) }

// checkParts finds a part of the device's memory that is larger than the whole.
func (c *Config) checkParts(whole int64) error {
	for _, part := range []struct {
		path, name string
		bytes      int64
	}{{"FrameBytes", "frame-memory", c.FrameBytes}, {"PreparedBytes", "prepared-memory", c.PreparedBytes},
		{"SetupBytes", "setup-memory", c.SetupBytes}} {
		if part.bytes > whole {
			return fmt.Errorf("server: %w", &setting.BoundError{Path: part.path, Name: part.name,
				Value: setting.FormatSize(part.bytes), Min: "0", Max: setting.FormatSize(whole) + ", the memory of the device"})
		}
	}
	return nil
}

// uploadStall is how long an upload of a frame may bring no pixels, and one of points no points.
const uploadStall = time.Minute

// Limits are the bounds of resident frames on a device.
func (c Config) frameLimits(dev kernels.Info) residents.Limits {
	orElse(&c.FrameBytes, dev.MemoryBytes/2)
	switch {
	case c.NoFrameCopies:
		c.FrameCopyBytes = 0
	case dev.Backend != "cpu":
		orElse(&c.FrameCopyBytes, c.FrameBytes)
	}
	return residents.Limits{
		Totals: residents.Totals{Count: c.MaxFrames, Bytes: c.FrameBytes, Copies: c.FrameCopyBytes},
		Idle:   c.FrameIdleTimeout, MaxIdle: c.MaxFrameIdleTimeout,
		Stall: cmp.Or(c.uploadStall, uploadStall),
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
