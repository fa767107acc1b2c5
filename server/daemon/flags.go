// The settings, as flags for kong. Their comments are the help, and the reference of the file and of the environment.

package daemon

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/drivers"
	"github.com/polyscan/polyscan/server/internal/setting"
)

//go:embed flags.go
var source embed.FS

// Flags are the settings of a server, to be embedded in the flags of a command. They need [Options]. Those that concern
// the server itself are [server.Config], whose zero value is the same as no flags.
type Flags struct {
	// File of settings, YAML: a key for each flag below, named as the flag is. A flag overrides the environment,
	// that overrides the file, and that overrides the default.
	File configPath `name:"config" short:"c" placeholder:"FILE" type:"path" default:""`
	// Print the settings as such a file, each with where it comes from, and exit.
	PrintConfig printConfig `env:"-"`

	// Address to serve gRPC on: host:port, or unix:/path. May be given more than once.
	Listen []string `default:"localhost:7465" placeholder:"ADDR" aka:"bind"`
	// Who may connect to unix sockets that --listen names, as the mode of the file.
	SocketMode fileMode `default:"0660" placeholder:"MODE"`
	// Address to serve /metrics, /healthz and /readyz on, in plain HTTP, and the console where that is on. Off by
	// default; with --console localhost:7466.
	HTTP string `name:"http" placeholder:"ADDR"`

	server.Config

	// Unix socket over which programs on this host get memory to put frames into, so that pixels need not travel
	// (Linux). Off by default.
	ShmSocket string `placeholder:"FILE" type:"path" default:"" group:"Shared memory"`

	// Form of logs: ${enum}. With json all that is printed is JSON.
	LogFormat string `enum:"text,json" default:"text" group:"Logs"`
	// Least severe level of logs: ${enum}. Calls that went well are logged at debug.
	LogLevel string `enum:"debug,info,warn,error" default:"info" group:"Logs"`

	// How long calls in flight may take after SIGTERM or SIGINT before they are cancelled. A second signal cancels at
	// once.
	ShutdownTimeout time.Duration `default:"30s"`
}

// Validate is called by kong. It finds the mistakes that don't depend on the machine.
func (f *Flags) Validate(ctx *kong.Context) error {
	if texts := command.Environment(ctx, os.Environ()); len(texts) > 0 {
		return errors.New(texts[0])
	}
	if err := empty(ctx); err != nil {
		return err
	}
	var bound *setting.BoundError
	if errors.As(setting.CheckFlags(&f.Config), &bound) {
		return errors.New(bound.AsFlag())
	}
	// A file that --print-config wrote gives every setting; one that is the default asks for nothing.
	if err := command.Idle(ctx, func(f *kong.Flag) bool {
		standard := reflect.New(f.Target.Type()).Elem()
		return !reflect.DeepEqual(f.Target.Interface(), standard.Interface()) && fmt.Sprint(shown(f)) != f.Default
	}); err != nil {
		return err
	}
	if err := drivers.Check(f.Device); err != nil {
		return fmt.Errorf("--%s", strings.TrimPrefix(err.Error(), "drivers: "))
	}
	switch {
	case f.ShutdownTimeout < 0:
		return fmt.Errorf("--shutdown-timeout %v: must not be negative", f.ShutdownTimeout)
	case len(f.Listen) == 0 && f.HTTP == "":
		return errors.New("--listen and --http are empty: nobody could reach the server")
	}
	if f.SocketMode != socketMode && !slices.ContainsFunc(append(slices.Clip(f.Listen), f.HTTP), func(a string) bool {
		return strings.HasPrefix(a, "unix:") && !strings.HasPrefix(a, "unix:@") // an abstract one has no file
	}) {
		return errors.New("--socket-mode has no effect without a unix socket, such as --listen unix:/path")
	}
	if f.NoFrameCopies && f.FrameCopyBytes != 0 {
		return errors.New("--frame-copy-memory has no effect with --no-frame-copies")
	}
	for i, a := range f.Listen {
		if err := checkAddress(a); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		if slices.Contains(f.Listen[:i], a) && !strings.HasSuffix(a, ":0") {
			return fmt.Errorf("--listen %s: is given twice", a)
		}
	}
	if f.HTTP != "" {
		if err := checkAddress(f.HTTP); err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		if slices.Contains(f.Listen, f.HTTP) && !strings.HasSuffix(f.HTTP, ":0") {
			return fmt.Errorf("--http %s: is an address of --listen, where gRPC is served", f.HTTP)
		}
	}
	return nil
}

// consoleURL is where a browser finds the console.
func (f *Flags) consoleURL(l net.Listener) string {
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return where(l)
	}
	u := url.URL{Scheme: "http", Host: a.String(), Path: "/"}
	if f.TLS.CertFile != "" {
		u.Scheme = "https"
	}
	if host, err := os.Hostname(); a.IP.IsUnspecified() && err == nil {
		u.Host = net.JoinHostPort(host, strconv.Itoa(a.Port))
	}
	return u.String()
}

func (f *Flags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(f.LogLevel)) // kong has checked it
	return newLogger(w, f.LogFormat == "json", level)
}

func newLogger(w io.Writer, json bool, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// socketMode is the default of --socket-mode.
const socketMode = 0o660

// fileMode is who may do what with a file, in octal digits.
type fileMode fs.FileMode

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *fileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is not a file mode; want octal digits from 0 to 0777, such as 0660", text)
	}
	if n&0o222 == 0 {
		return fmt.Errorf("%q lets nobody connect, which takes a right to write; want a mode such as 0660", text)
	}
	*m = fileMode(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler. It writes what UnmarshalText reads.
func (m fileMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#o", uint32(m)), nil }

// sizeMapper reads the settings that are sizes.
func sizeMapper(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("size", &text); err != nil {
		return err
	}
	n, err := setting.ParseSize(text)
	if err == nil {
		target.SetInt(n)
	}
	return err
}

// offMapper reads the settings that are false where the flag is true.
type offMapper struct{}

func (offMapper) IsBool() bool { return true }

func (offMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	on := reflect.New(target.Type()).Elem()
	err := kong.NewRegistry().RegisterDefaults().ForType(on.Type()).Decode(ctx, on)
	target.SetBool(!on.Bool())
	return err
}

// shown is the value of a setting as a file has it.
func shown(f *kong.Flag) any {
	switch v := f.Target; {
	case f.Tag.Type == "size":
		return setting.FormatSize(v.Int())
	case f.Tag.Type == "off":
		return !v.Bool()
	case f.IsSlice() && v.Len() == 0:
		return ""
	default:
		return v.Interface()
	}
}

// warn logs settings that work and that few people mean. The listeners are those that take calls.
func (f *Flags) warn(log *slog.Logger, listeners []net.Listener) {
	for _, l := range listeners {
		a, ok := l.Addr().(*net.TCPAddr)
		if ok && !a.IP.IsLoopback() && f.TokenFile == "" && f.TLS.ClientCAFile == "" {
			log.Warn("anyone who reaches this address can use the server: give token-file and tls-cert, "+
				"or listen on localhost or a unix socket", "address", a.String())
		}
	}
	name := f.TLS.KeyFile
	if name == "" || runtime.GOOS == "windows" { // whose modes say nothing
		return
	}
	if fi, err := os.Stat(name); err == nil && fi.Mode().Perm()&0o004 != 0 {
		log.Warn("every user of this machine can read a secret: chmod o-r", "file", name,
			"mode", fmt.Sprintf("%#o", fi.Mode().Perm()))
	}
}
