package main

// polyscan frames: frames that stay on a server's device.

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type framesCmd struct {
	Put     framesPutCmd     `cmd:"" help:"Keep a frame on the server's device."`
	List    framesListCmd    `cmd:"" help:"List the frames that are kept."`
	Release framesReleaseCmd `cmd:"" help:"Make the server forget frames."`
}

func (c *framesCmd) Help() string {
	return `
A frame that is sent once can be reduced many times, by the name that the server gives it. It goes when it is
released, when nobody uses it for a while, or when the device needs its memory.

Examples:

    polyscan frames put board.png --addr inspector:7465
    polyscan reduce --frame NAME --recipe board --addr inspector:7465
    polyscan frames list --addr inspector:7465
`
}

// onServer runs a function with a connection to a server that outlives the command.
func onServer(e *env, s *serverFlags, fn func(*connection) error) error {
	if s.Addr == "" {
		return usage("frames are kept by a server: say --addr ADDR")
	}
	conn, err := connect(e, s, &deviceFlags{Device: "auto"}, "")
	if err != nil {
		return err
	}
	err = fn(conn)
	if cerr := conn.close(); err == nil {
		err = cerr
	}
	return err
}

type framesPutCmd struct {
	// The frame: a PNG, JPEG, TIFF or BMP file, raw pixels with --raw, or - for standard input.
	Frame string `arg:"" predictor:"file"`
	// Your own name of the frame, for results and lists. By default the name of the file.
	ID string `name:"id" placeholder:"NAME"`
	// Time after which the frame is forgotten if nobody uses it, such as 1h. By default the server decides.
	Idle time.Duration `placeholder:"TIME"`
	// Print a JSON object instead of the name.
	JSON bool `name:"json"`
	frameFlags
	serverFlags
}

func (c *framesPutCmd) Help() string {
	return `
Prints the name under which the server keeps the frame. Raw pixels go up piece by piece, however many they are.

Examples:

    name=$(polyscan frames put board.png --addr inspector:7465)
    polyscan frames put line.raw --raw 16384x40000:gray8 --idle 1h --addr inspector:7465
`
}

func (c *framesPutCmd) Run(e *env) error {
	if c.Idle < 0 {
		return usage("--idle %v: must not be negative", c.Idle)
	}
	if err := c.check(); err != nil {
		return err
	}
	id := c.ID
	if id == "" && c.Frame != "-" {
		id = cut(c.Frame, 256)
	}
	return onServer(e, &c.serverFlags, func(conn *connection) error {
		f, err := c.put(e, conn, id)
		if err != nil {
			return conn.fail(err, inputName(c.Frame), nil)
		}
		if c.JSON {
			return writeJSON(e.stdout, reportFrame(f))
		}
		_, err = fmt.Fprintln(e.stdout, f.GetName())
		return err
	})
}

func (c *framesPutCmd) put(e *env, conn *connection, id string) (*polyscanv1.ResidentFrame, error) {
	if !c.Raw.set() || c.Frame == "-" {
		f, err := c.load(e, c.Frame)
		if err != nil {
			return nil, err
		}
		m := f.message()
		m.FrameId = id
		return conn.PutFrame(conn.ctx, m, c.Idle)
	}
	raw := clients.Raw(c.Raw)
	raw.Bits, raw.ID = c.Bits, id
	in, err := os.Open(c.Frame)
	if err != nil {
		return nil, bad(c.Frame, "%v", reason(err))
	}
	defer in.Close()
	f, err := conn.UploadFrame(conn.ctx, raw, in, c.Idle)
	if err != nil && clients.AsError(err) == nil { // it is the file's
		return nil, bad(c.Frame, "%v", reason(err))
	}
	return f, err
}

type framesListCmd struct {
	// Print a JSON array.
	JSON bool `name:"json"`
	serverFlags
}

func (c *framesListCmd) Help() string {
	return `
Examples:

    polyscan frames list --addr inspector:7465
    polyscan frames list --json --addr inspector:7465 | jq -r '.[].name'
`
}

// keptReport is what --json prints of a frame.
type keptReport struct {
	Name      string `json:"name"`
	FrameID   string `json:"frame_id"`
	Width     uint32 `json:"width"`
	Height    uint32 `json:"height"`
	Format    string `json:"pixel_format"`
	Bits      uint32 `json:"significant_bits"`
	Bytes     uint64 `json:"bytes"`
	CreatedAt string `json:"created_at"`
	UsedAt    string `json:"used_at"`
	ExpiresAt string `json:"expires_at"`
	Tenant    string `json:"tenant"`
}

func reportFrame(f *polyscanv1.ResidentFrame) keptReport {
	l := f.GetLayout()
	at := func(t interface{ AsTime() time.Time }) string { return t.AsTime().UTC().Format(time.RFC3339Nano) }
	return keptReport{f.GetName(), f.GetFrameId(), l.GetWidth(), l.GetHeight(), cli.FormatName(l.GetPixelFormat()),
		l.GetSignificantBits(),
		f.GetBytes(), at(f.GetCreatedAt()), at(f.GetUsedAt()), at(f.GetExpiresAt()), f.GetTenant()}
}

func (c *framesListCmd) Run(e *env) error {
	return onServer(e, &c.serverFlags, func(conn *connection) error {
		all := []keptReport{}
		t := &table{columns: []column{{title: "NAME"}, {title: "SIZE", right: true}, {title: "FORMAT"},
			{title: "MEMORY", right: true},
			{title: "EXPIRES"}, {title: "TENANT"}, {title: "FRAME"}}}
		for f, err := range conn.Frames(conn.ctx) {
			if err != nil {
				return conn.fail(err, "", nil)
			}
			r := reportFrame(f)
			all = append(all, r)
			t.add(cell{text: r.Name}, cell{text: strconv.Itoa(int(r.Width)) + "x" + strconv.Itoa(int(r.Height))},
				cell{text: r.Format},
				cell{text: size(r.Bytes)}, cell{text: f.GetExpiresAt().AsTime().Local().Format("2006-01-02 15:04:05")},
				cell{text: e.fit(cli.Printable(r.Tenant), 30)}, cell{text: e.rest(cli.Printable(r.FrameID), 60)})
		}
		t.dropEmpty("TENANT")
		if c.JSON {
			return writeJSON(e.stdout, all)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(e.stdout, "no frames")
			return err
		}
		return t.write(e, e.stdout)
	})
}

type framesReleaseCmd struct {
	// Names that frames put and frames list print.
	Names []string `arg:"" name:"name"`
	serverFlags
}

func (c *framesReleaseCmd) Help() string {
	return `
Calls that use a frame finish. A name that isn't kept is an error; the others are released all the same.

Examples:

    polyscan frames release NAME --addr inspector:7465
`
}

func (c *framesReleaseCmd) Run(e *env) error {
	return onServer(e, &c.serverFlags, func(conn *connection) error {
		var failed error
		for _, name := range c.Names {
			if err := conn.ReleaseFrame(conn.ctx, name); err != nil && failed == nil {
				failed = conn.fail(err, "", nil)
			}
		}
		return failed
	})
}
