// The settings, as flags for kong. Their help is the reference of the file and of the environment as well.

package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
)

// Flags are the settings of a server, to be embedded in the flags of a command. They need [Options].
type Flags struct {
	Config      configPath  `help:"File of settings, YAML: a key for each flag below, named as the flag is. The command line goes before the environment, that before the file, and that before the defaults." short:"c" placeholder:"FILE" type:"path" default:""`
	PrintConfig printConfig `help:"Print the settings as such a file, each with where it comes from, and exit." env:"-"`

	Listen []string `help:"Address to serve gRPC on: host:port, or unix:/path. May be given more than once." default:"localhost:7465" placeholder:"ADDR"`
	HTTP   string   `name:"http" help:"Address to serve /metrics, /healthz and /readyz on, in plain HTTP. Off by default." placeholder:"ADDR"`

	Device          string   `help:"What computes: ${devices}." default:"auto" group:"Device"`
	Ordinal         int      `help:"Which of several GPUs, from 0." group:"Device"`
	Threads         int      `help:"Threads of the CPU that one operation may use. 0 means all." group:"Device"`
	Memory          byteSize `help:"Memory of the device to reserve, such as 2GiB. Default: 1GiB on the CPU, 80% of what is free on a GPU." placeholder:"SIZE" group:"Device"`
	Streams         int      `help:"Interactive jobs that run on the device at the same time. 0 means 4." group:"Device"`
	LineScanStreams int      `help:"Strips of line-scan sessions that run beside those. 0 means 4." group:"Device"`
	BatchStreams    int      `help:"Batch jobs that run beside those. 0 means 2." group:"Device"`
	MaxWaiting      int      `help:"Jobs that may wait for the device. Beyond that batch jobs are refused, then interactive ones. 0 means 256." group:"Device"`

	MaxMessage        byteSize      `help:"Largest request, and largest frame that an image file may decode to. Default: 256MiB." default:"256MiB" placeholder:"SIZE" group:"Limits"`
	MaxPixels         int64         `help:"Most pixels of a frame." default:"${maxPixels}" group:"Limits"`
	MaxRegions        int           `help:"Most regions of a request or recipe." default:"${maxRegions}" group:"Limits"`
	MaxVertices       int           `help:"Most vertices of a request or recipe." default:"${maxVertices}" group:"Limits"`
	MaxRegionVertices int           `help:"Most vertices of a region." default:"${maxRegionVertices}" group:"Limits"`
	MaxPoints         int           `help:"Most points of a triangulation, vertices of a conversion, sites of a Voronoi diagram, and points and stops of a drawing or canvas, with the pixels of one request or change. Each takes 150 bytes of the device's memory." default:"${maxPoints}" group:"Limits"`
	MaxStreams        int           `help:"Most concurrent calls of one connection." default:"${maxStreams}" group:"Limits"`
	MaxConnections    int           `help:"Most connections of each listener. 0 means any number." group:"Limits"`
	StreamDepth       int           `help:"Frames of one stream that are held at the same time." default:"${streamDepth}" group:"Limits"`
	StreamIdle        time.Duration `help:"Time that a client may say nothing while its canvas is open, or read nothing that waits for it, before the call ends." default:"${streamIdle}" placeholder:"TIME" group:"Limits"`
	HostMemory        byteSize      `help:"Memory for decoding image files, for drawings and for large results. Default: 1GiB, and 4 times --max-message at least." placeholder:"SIZE" group:"Limits"`
	PreparedMemory    byteSize      `help:"Memory of the device that keeps regions prepared from frame to frame. Default: a quarter." placeholder:"SIZE" group:"Limits"`
	SetupMemory       byteSize      `help:"Memory of the device that keeps set-ups of diffusion for constraints that come again, while nothing else needs it; 1B keeps none. Default: half." placeholder:"SIZE" group:"Limits"`

	MaxFrames       int           `help:"Most frames that clients may keep on the device." default:"${maxFrames}" group:"Resident frames"`
	FrameMemory     byteSize      `help:"Memory of the device for them. Default: half." placeholder:"SIZE" group:"Resident frames"`
	FrameIdle       time.Duration `help:"Time without use after which a frame goes whose client did not say." default:"${frameIdle}" placeholder:"TIME" group:"Resident frames"`
	MaxFrameIdle    time.Duration `help:"Most that clients may ask for." default:"${maxFrameIdle}" placeholder:"TIME" group:"Resident frames"`
	FrameCopies     bool          `help:"Keep copies in host memory, from which frames are put back when the device was lost. The CPU isn't lost and needs none." default:"true" negatable:"" group:"Resident frames"`
	FrameCopyMemory byteSize      `help:"Most host memory for copies. Default: as much as --frame-memory." placeholder:"SIZE" group:"Resident frames"`

	ScanSessions int           `help:"Most line-scan sessions, those between two connections included." default:"${scanSessions}" group:"Line-scan"`
	ScanCredit   byteSize      `help:"Strips that a line-scan client may have under way." default:"${scanCredit}" placeholder:"SIZE" group:"Line-scan"`
	ScanUnread   byteSize      `help:"Results that a line-scan client may leave unread before it is cut off." default:"${scanUnread}" placeholder:"SIZE" group:"Line-scan"`
	ScanParts    int           `help:"Most parts of a session that are under way at the same time." default:"${scanParts}" group:"Line-scan"`
	ScanResume   time.Duration `help:"How long a session outlives its connection." default:"${scanResume}" placeholder:"TIME" group:"Line-scan"`
	ScanDrain    time.Duration `help:"How long line-scan clients may go on when the server shuts down, before what they have sent is finished." default:"${scanDrain}" placeholder:"TIME" group:"Line-scan"`

	ShmSocket   string   `help:"Unix socket over which programs on this host get memory to put frames into, so that pixels need not travel (Linux). Off by default." placeholder:"FILE" type:"path" default:"" group:"Shared memory"`
	ShmMemory   byteSize `help:"Most of it for all programs together; taken when they ask for it. Default: 1GiB." placeholder:"SIZE" group:"Shared memory"`
	ShmAllowUID userIDs  `name:"shm-allow-uid" help:"Numbers of users whose programs may have it, beside the server's own user and root, such as 1000,1001." default:"" placeholder:"UID,..." group:"Shared memory"`

	Recipes      string   `help:"Directory that keeps recipes. By default they are lost when the server ends." placeholder:"DIR" type:"path" default:"" group:"Recipes"`
	MaxRecipes   int      `help:"Most versions of recipes." default:"${maxRecipes}" group:"Recipes"`
	RecipeMemory byteSize `help:"Most memory for them." default:"${recipeMemory}" placeholder:"SIZE" group:"Recipes"`

	TLSCert     string `name:"tls-cert" help:"Certificate of the server, PEM. Read again when it changes, and on SIGHUP; so are the files below." placeholder:"FILE" type:"path" default:"" group:"Security"`
	TLSKey      string `name:"tls-key" help:"Key of the certificate, PEM." placeholder:"FILE" type:"path" default:"" group:"Security"`
	TLSClientCA string `name:"tls-client-ca" help:"Authorities that must have signed the certificates of clients, PEM." placeholder:"FILE" type:"path" default:"" group:"Security"`
	TokenFile   string `help:"Bearer tokens, one a line; each call but health checks must bring one of them. Use TLS with it: without, tokens travel in the clear." placeholder:"FILE" type:"path" default:"" group:"Security"`
	Reflection  bool   `help:"Serve reflection, for grpcurl and the like." default:"true" negatable:"" group:"Security"`
	Channelz    bool   `help:"Serve channelz, for a look at connections." default:"true" negatable:"" group:"Security"`

	LogFormat string `help:"Form of logs: ${enum}." enum:"text,json" default:"text" group:"Logs"`
	LogLevel  string `help:"Least severe level of logs: ${enum}. Calls that went well are logged at debug." enum:"debug,info,warn,error" default:"info" group:"Logs"`

	ShutdownTimeout time.Duration `help:"How long calls in flight may take after SIGTERM or SIGINT before they are cancelled. A second signal cancels at once." default:"30s"`
}

// vars are what the help texts of [Flags] and their defaults refer to.
func vars() kong.Vars {
	size := func(n int64) string {
		text, _ := byteSize(n).MarshalText() // never fails
		return string(text)
	}
	return kong.Vars{
		"maxFrames":         strconv.Itoa(server.DefaultMaxFrames),
		"frameIdle":         server.DefaultFrameIdleTimeout.String(),
		"maxFrameIdle":      server.DefaultMaxFrameIdleTimeout.String(),
		"scanSessions":      strconv.Itoa(server.DefaultScanSessions),
		"scanCredit":        size(server.DefaultScanCreditBytes),
		"scanUnread":        size(server.DefaultScanUnreadBytes),
		"scanParts":         strconv.Itoa(server.DefaultScanParts),
		"scanResume":        server.DefaultScanResumeWindow.String(),
		"scanDrain":         server.DefaultScanDrainTime.String(),
		"maxRecipes":        strconv.Itoa(server.DefaultMaxRecipes),
		"recipeMemory":      size(server.DefaultMaxRecipeBytes),
		"maxRegionVertices": strconv.Itoa(polygon.DefaultMaxRegionVertices),
		"devices":           drivers.Auto + ", " + strings.Join(drivers.Names(), ", "),
		"maxPixels":         strconv.Itoa(server.DefaultMaxFramePixels),
		"maxRegions":        strconv.Itoa(polygon.DefaultMaxRegions),
		"maxPoints":         strconv.Itoa(server.DefaultMaxPoints),
		"maxVertices":       strconv.Itoa(polygon.DefaultMaxVertices),
		"maxStreams":        strconv.Itoa(server.DefaultMaxStreams),
		"streamDepth":       strconv.Itoa(server.DefaultStreamDepth),
		"streamIdle":        server.DefaultStreamIdleTimeout.String(),
	}
}

func (f *Flags) config(log *slog.Logger) server.Config {
	return server.Config{
		Device: f.Device, Ordinal: f.Ordinal, Threads: f.Threads, MemoryBytes: int64(f.Memory), Streams: f.Streams,
		LineScanStreams: f.LineScanStreams, BatchStreams: f.BatchStreams, MaxWaiting: f.MaxWaiting,
		SharedMemoryBytes: int64(f.ShmMemory), SharedMemoryUIDs: f.ShmAllowUID.list,
		Bounds: polygon.Bounds{MaxRegions: f.MaxRegions, MaxVertices: f.MaxVertices,
			MaxRegionVertices: f.MaxRegionVertices},
		MaxMessageBytes: int64(f.MaxMessage),
		MaxFramePixels:  f.MaxPixels,
		MaxPoints:       f.MaxPoints,
		MaxStreams:      f.MaxStreams,
		MaxConnections:  f.MaxConnections,
		StreamDepth:     f.StreamDepth, StreamIdleTimeout: f.StreamIdle,
		HostBytes:     int64(f.HostMemory),
		PreparedBytes: int64(f.PreparedMemory),
		SetupBytes:    int64(f.SetupMemory),
		MaxFrames:     f.MaxFrames, FrameBytes: int64(f.FrameMemory), FrameIdleTimeout: f.FrameIdle,
		MaxFrameIdleTimeout: f.MaxFrameIdle,
		NoFrameCopies:       !f.FrameCopies, FrameCopyBytes: int64(f.FrameCopyMemory),
		ScanSessions: f.ScanSessions, ScanCreditBytes: int(f.ScanCredit), ScanUnreadBytes: int(f.ScanUnread),
		ScanParts:        f.ScanParts,
		ScanResumeWindow: f.ScanResume, ScanDrainTime: f.ScanDrain,
		RecipeDir: f.Recipes, MaxRecipes: f.MaxRecipes, MaxRecipeBytes: int64(f.RecipeMemory),
		TLS:          server.TLS{CertFile: f.TLSCert, KeyFile: f.TLSKey, ClientCAFile: f.TLSClientCA},
		TokenFile:    f.TokenFile,
		NoReflection: !f.Reflection,
		NoChannelz:   !f.Channelz,
		Logger:       log,
	}
}

func (f *Flags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(f.LogLevel)) // kong has checked it
	o := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// userIDs are numbers of users with commas between them.
type userIDs struct{ list []uint32 }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *userIDs) UnmarshalText(text []byte) error {
	u.list = nil
	if len(text) == 0 {
		return nil
	}
	for id := range strings.SplitSeq(string(text), ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 32)
		if err != nil {
			return fmt.Errorf("%q is no number of a user; want 0 to %d", id, math.MaxUint32)
		}
		u.list = append(u.list, uint32(n))
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler. It writes what UnmarshalText reads.
func (u userIDs) MarshalText() ([]byte, error) {
	var text []byte
	for i, id := range u.list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(id), 10)
	}
	return text, nil
}

// byteSize is a number of bytes, with a unit or without.
type byteSize int64

var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1},
}

// MarshalText implements encoding.TextMarshaler. It writes what UnmarshalText reads.
func (b byteSize) MarshalText() ([]byte, error) {
	for _, unit := range []struct {
		name  string
		shift int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n := b >> unit.shift; b != 0 && n<<unit.shift == b {
			return fmt.Appendf(nil, "%d%s", n, unit.name), nil
		}
	}
	return strconv.AppendInt(nil, int64(b), 10), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	s := strings.ToLower(strings.TrimSpace(string(text)))
	unit := 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	v *= unit
	if err != nil || !(v >= 0) || v > math.MaxInt64/2 {
		return fmt.Errorf("%q is no size; want a number with KiB, MiB, GiB, KB, MB, GB or nothing behind it", text)
	}
	*b = byteSize(v)
	return nil
}
