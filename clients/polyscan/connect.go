package main

// Connections: to a server over the network, or to one inside this process.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/explain"
	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
)

// serverFlags choose the server.
type serverFlags struct {
	// Server to talk to: HOST:PORT or unix:PATH. Without it, the same server runs inside this process, for commands
	// that need nothing which a server keeps.
	Addr string `placeholder:"ADDR" env:"POLYSCAN_ADDR" aka:"server,address,host,url" group:"server"`
	cli.Credentials
	// Give up after this long, such as 30s.
	Timeout time.Duration `placeholder:"TIME" group:"server"`
}

// deviceFlags choose the device of the server inside the process.
type deviceFlags struct {
	// Device: auto, cpu, or cuda in builds that have it.
	Device string `enum:"auto,cpu,cuda" default:"auto" group:"device" without:"addr"`
	// Threads of the CPU (default: all).
	Threads int `placeholder:"N" group:"device" without:"addr|device=cuda"`

	memory int64 // of the device to reserve at least
	points int   // the most of a triangulation or a drawing; 0: the default
}

// connection is a client with what belongs to it.
type connection struct {
	*clients.Client
	to      explain.Connection // without an address inside the process
	timeout time.Duration      // 0: none
	blobs   string             // the flag that says what blobs are
	ctx     context.Context
	close   func() error
}

// end closes the connection when a command returns. What goes wrong is the command's error, unless that has one.
func (c *connection) end(err *error) {
	if cerr := c.close(); *err == nil {
		*err = cerr
	}
}

// fail adds to an error what it is about, in the words of the command line.
func (c *connection) fail(err error, frameName string, r *regions) error {
	var e *clients.Error
	if !errors.As(err, &e) {
		return err
	}
	s := &serverError{to: c.to, blobs: cmp.Or(c.blobs, "--blobs"), timeout: c.timeout, err: e, frame: frameName,
		regions: r}
	if m := unknownRecipe.FindStringSubmatch(e.Reason()); m != nil && e.Code == codes.NotFound {
		if names, err := c.recipeNames(); err == nil && !slices.Contains(names, m[1]) {
			s.meant = meantOf(m[1], names)
		}
	}
	return s
}

var unknownRecipe = regexp.MustCompile(`^recipe "([^"]*)": not stored$`)

// recipeNames are the names of all recipes that the server has.
func (c *connection) recipeNames() (names []string, err error) {
	for r, err := range c.Recipes(c.ctx, "", false) {
		if err != nil {
			return nil, err
		}
		names = append(names, r.GetName())
	}
	return names, nil
}

// connect dials --addr, or starts a server inside the process. recipeDir is where that one keeps recipes.
func connect(e *env, s *serverFlags, d *deviceFlags, recipeDir string) (*connection, error) {
	if d.Threads < 0 {
		return nil, usage("--threads %d: must not be negative", d.Threads)
	}
	if s.Timeout < 0 {
		return nil, usage("--timeout %v: must not be negative", s.Timeout)
	}
	var c *connection
	var err error
	if s.Addr != "" {
		c, err = dial(s)
	} else {
		if _, err := os.Stat(recipeDir); recipeDir != "" && err != nil { // which the server would make
			return nil, bad(recipeDir, "%v", reason(err))
		}
		c, err = inProcess(server.Config{
			Device: d.Device, Threads: d.Threads, RecipeDir: recipeDir, MemoryBytes: d.memory, MaxPoints: d.points,
		})
	}
	if err != nil {
		return nil, err
	}
	c.ctx = e.ctx
	if c.timeout = s.Timeout; s.Timeout > 0 {
		ctx, cancel := context.WithTimeout(e.ctx, s.Timeout)
		c.ctx = ctx
		shut := c.close
		c.close = func() error {
			cancel()
			return shut()
		}
	}
	return c, nil
}

func dial(s *serverFlags) (*connection, error) {
	client, err := clients.Dial(s.Addr, s.Options()...)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "clients: dial ")
		if !s.Secure() && strings.Contains(text, "TLS") {
			text += " (--tls)"
		}
		return nil, usage("--addr %s", text)
	}
	return &connection{Client: client, to: s.Connection(s.Addr), close: client.Close}, nil
}

const (
	// inProcessMemory is what the server inside the process reserves on the device at least, for frames up to the
	// largest message. On Unix memory that isn't written to costs nothing; where there is less, half of it has to do,
	// and in the end the server's default.
	inProcessMemory = 4 << 30
	// pipeBytes is how much of a message is on the way between the two ends of the in-memory connection.
	pipeBytes = 4 << 20
	// closeGrace is how long calls in flight may take to end when the command does.
	closeGrace = 5 * time.Second
)

// noDevice is the error for a device that this build or this machine lacks.
func noDevice(name string, err error) error {
	if errors.Is(err, drivers.ErrUnknown) {
		return usage("--device %s: no such device; this build knows %s", name, strings.Join(drivers.Names(), ", "))
	}
	return usage("--device %s: %v", name, err)
}

// wantedDevice is the device that a command is to compute on: "" where it doesn't, or not in this process.
func wantedDevice(k *kong.Context) (device string) {
	for _, f := range k.Flags() {
		switch value := k.FlagValue(f); f.Name {
		case "addr":
			if value != "" {
				return ""
			}
		case "device":
			device, _ = value.(string)
		}
	}
	return device
}

// inProcess starts a server behind a connection in memory: the same code and the same checks as over a network.
func inProcess(cfg server.Config) (*connection, error) {
	cfg.MaxMessageBytes = 1<<31 - 1
	cfg.MaxFramePixels = kernels.MaxPixels
	cfg.NoReflection, cfg.NoChannelz = true, true
	cfg.Version = command.Build()
	cfg.MemoryBytes = max(cfg.MemoryBytes, inProcessMemory)
	s, err := server.New(cfg)
	for errors.Is(err, kernels.ErrOutOfMemory) && cfg.MemoryBytes > 0 {
		if cfg.MemoryBytes /= 2; cfg.MemoryBytes < inProcessMemory/2 {
			cfg.MemoryBytes = 0
		}
		s, err = server.New(cfg)
	}
	var bound interface{ AsFlag() string } // of a setting that a flag has
	switch {
	case errors.As(err, &bound):
		return nil, usage("%s", bound.AsFlag())
	case errors.Is(err, drivers.ErrUnknown), errors.Is(err, kernels.ErrNoDevice):
		return nil, noDevice(cfg.Device, err)
	case err != nil:
		return nil, &inputError{strings.TrimPrefix(err.Error(), "server: ")}
	}
	l := bufconn.Listen(pipeBytes)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	opts := append(clients.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	cc, err := grpc.NewClient("passthrough:///in-process", opts...)
	if err != nil {
		return nil, fmt.Errorf("in-process connection: %w", err)
	}
	return &connection{Client: clients.New(cc), close: func() error {
		err := cc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		return errors.Join(err, s.Shutdown(ctx), <-served)
	}}, nil
}
