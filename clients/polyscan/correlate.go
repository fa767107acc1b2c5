package main

// Correlations: how they are spelled, and the frames that they speak of.

import (
	"fmt"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// goldenFlags are frames to compare with.
type goldenFlags struct {
	// A frame that limits and --correlate compare with, of the same size and format; NAME is what they call it (default
	// golden). May be repeated.
	Golden []string `placeholder:"[NAME=]FILE" sep:"none" predictor:"file" group:"frame"`
}

// files are what the frames are read from.
func (o *goldenFlags) files() (out inputs) {
	for _, text := range o.Golden {
		_, file := goldenOf(text)
		out = append(out, file)
	}
	return out
}

// goldenOf reads [NAME=]FILE.
func goldenOf(text string) (name, file string) {
	if name, file, named := strings.Cut(text, "="); named {
		return name, file
	}
	return "golden", text
}

// checkOther warns of a frame to compare with that is one of those that are judged, which agrees with itself.
func (o *goldenFlags) checkOther(e *env, strict bool, judged ...string) error {
	for _, text := range o.Golden {
		_, golden := goldenOf(text)
		for _, file := range judged {
			if golden == "-" || file == "-" || !cli.OneFile(golden, file) {
				continue
			}
			text := fmt.Sprintf("--golden %s is the judged file %s itself: whatever compares the two passes",
				cli.Printable(text), cli.Printable(file))
			if strict {
				return usage("%s (--strict)", text)
			}
			e.warn("%s", text)
		}
	}
	return nil
}

// goldenIdle is how long the server keeps such a frame that nobody uses.
const goldenIdle = 10 * time.Minute

// put brings the frames to the server for a call, whose inspection names them then. release takes them away.
func (o *goldenFlags) put(e *env, conn *connection, as *frameFlags, in *polyscanv1.Inspection) (release func(),
	err error) {
	put := map[string]string{}
	release = func() {
		for _, name := range put {
			_ = conn.ReleaseFrame(conn.ctx, name) // it goes by itself, too
		}
	}
	for _, text := range o.Golden {
		name, file := goldenOf(text)
		f, err := as.load(e, file)
		if err != nil {
			release()
			return nil, err
		}
		if _, again := put[name]; again || name == "" {
			release()
			return nil, usage("--golden %s: each frame needs a name of its own", cli.Printable(text))
		}
		kept, err := conn.PutFrame(conn.ctx, f.message(), goldenIdle)
		if err != nil {
			release()
			return nil, conn.fail(err, f.name, nil)
		}
		if in.Frames == nil {
			in.Frames = map[string]string{}
		}
		put[name] = kept.GetName()
		in.Frames[name] = kept.GetName() // in place of the one that a regions file names
	}
	return release, nil
}
