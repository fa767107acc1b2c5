package main

// polyscan reduce: one frame, many regions.

import (
	"context"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type reduceCmd struct {
	// The frame: a PNG, JPEG, TIFF or BMP file, raw pixels with --raw, or - for standard input.
	Frame string `arg:"" optional:"" predictor:"file"`
	// Instead of FRAME: one that the server keeps, by the name that frames put printed.
	Resident string `name:"frame" placeholder:"NAME" group:"frame"`

	regionFlags
	// Regions and limits stored on the server, instead of --regions; VERSION defaults to the latest.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe" without:"addr"`
	frameFlags
	reductionFlags
	goldenFlags
	flatFlags
	poseFlags
	nameFlags
	// Id of the part that the frame shows, such as B-2041-17: it comes back in the JSON, and watchers see it.
	Part string `placeholder:"ID" group:"server"`

	// Print one JSON object instead of the table.
	JSON bool `group:"output" name:"json"`
	// Draw the regions over the frame, coloured by verdict, into this PNG or JPEG.
	Overlay string `placeholder:"FILE" predictor:"file" group:"output"`
	// Longest side of the frame in the overlay, in pixels; small frames are enlarged by default.
	OverlaySize int `placeholder:"PX" group:"output" needs:"overlay"`
	// Draw the histograms into this PNG or JPEG, or with --texture how many pairs there are of each two levels, or with
	// --correlate how far pixels vary together by their distance.
	Plot string `placeholder:"FILE" predictor:"file" group:"output"`
	// Exit with 1 if the verdict is FAIL; a region must have limits, or the part be searched for.
	FailOnReject bool `group:"output"`

	deviceFlags
	serverFlags
}

func (c *reduceCmd) Help() string {
	return `
Prints exact statistics of the pixels inside each region, and a verdict where regions have limits.

Examples:

    polyscan reduce testdata/board.png --regions testdata/board.regions.json
    polyscan reduce board.png -r labelme.json --json | jq '.regions[0].channels[0].mean'
    polyscan reduce board.png -r board.svg --overlay board-overlay.png --plot board-plot.png
    polyscan reduce plank.png -r plank.regions.json --texture 1,0 --texture 0,1 --plot pairs.png
    polyscan reduce metal.png -r metal.regions.json --correlate 'radial(32)' --plot correlogram.png
    polyscan reduce board.png -r board.regions.json --golden good.png --limit 'U1: ncc of "golden" >= 0.95'
    polyscan reduce board.png -r board.regions.json --pose 7.3,-4,1.2@480,320 --overlay moved.png
    polyscan reduce line.raw --raw 4096x1024:gray16le --bits 12 -r zones.json --percentiles 1,50,99.9
    polyscan reduce board.png --recipe board@3 --addr inspector:7465 --fail-on-reject
    polyscan reduce --frame NAME --recipe board --addr inspector:7465

Exit codes: 0 done; 1 the verdict is FAIL and --fail-on-reject was given; 2 wrong arguments or bad input; 3 the
server, or the way to it, failed; 130 interrupted.
`
}

func (c *reduceCmd) Run(e *env) (err error) {
	if c.OverlaySize < 0 || c.OverlaySize > maxOverlaySize {
		return usage("--overlay-size %d: must be 1 to %d", c.OverlaySize, maxOverlaySize)
	}
	err = checkOutputs(append(c.goldenFlags.files(), c.Frame, c.Regions, c.Flat),
		output{"--overlay", c.Overlay, pictureKinds},
		output{"--plot", c.Plot, pictureKinds})
	if err != nil {
		return err
	}
	if c.Frame == "" && c.Resident == "" {
		return usage("FRAME or --frame NAME is missing")
	}
	if err := c.checkOther(e, c.Strict, c.Frame); err != nil {
		return err
	}
	t, err := c.judged(e, c.Recipe, c.Frame, c.FailOnReject)
	if err != nil {
		return err
	}
	f, err := c.source(e)
	if err != nil {
		return err
	}
	r, err := c.reductions(t)
	if err != nil {
		return err
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	if c.FailOnReject {
		if err := t.requireLimits(conn, &c.poseFlags); err != nil {
			return err
		}
	}
	drawn := t.regions
	if c.Overlay != "" || c.Pose != "" {
		if drawn, err = t.known(conn); err != nil {
			return err
		}
	}
	start := time.Now()
	in, m := t.inspection(r), f.message()
	in.Name, m.PartId = c.Name, c.Part
	if in.Pose, err = c.poseFlags.message(); err != nil {
		return err
	}
	if in.FlatField, err = c.field(e, t.regions); err != nil {
		return err
	}
	release, err := c.goldenFlags.put(e, conn, &c.frameFlags, in)
	if err != nil {
		return err
	}
	defer release()
	res, err := conn.Reduce(conn.ctx, in, m)
	if err != nil {
		return conn.fail(err, f.name, t.regions)
	}
	total := time.Since(start)
	if f.resident != "" && res.GetFrameId() != "" {
		f.name = res.GetFrameId()
	}
	if t.regions != nil {
		if err := t.regions.checkSize(e, f.name, res.GetLayout().GetWidth(), res.GetLayout().GetHeight()); err != nil {
			return err
		}
	}

	if c.JSON {
		err = writeJSON(e.stdout, reportOf(f.name, res, askedPercentiles(r)))
	} else {
		if err = errors.Join(writeTable(e, e.stdout, res), writeTextures(e, e.stdout, res),
			writeCorrelations(e, e.stdout, res), writeBlobs(e, e.stdout, res, "\n")); err == nil {
			err = errors.Join(writeSummary(e, e.stdout, f.name, res, total), c.writeUnsearched(e.stdout, drawn))
		}
	}
	if err != nil {
		return err
	}
	if err := c.pictures(f, drawn, res); err != nil {
		return err
	}
	if c.FailOnReject && res.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
		return errRejected
	}
	return nil
}

// source is the frame that FRAME or --frame says.
func (c *reduceCmd) source(e *env) (*frame, error) {
	switch {
	case c.Resident == "":
		return c.frameFlags.load(e, c.Frame)
	case c.Frame != "":
		return nil, usage("FRAME and --frame: give one of them")
	case c.Addr == "":
		return nil, usage("--frame %s: frames are kept by a server: say --addr ADDR", cli.Printable(c.Resident))
	case c.frameFlags != frameFlags{}:
		return nil, usage("--raw, --bits and --format are for a FRAME that is sent; --frame names one that the server has")
	case c.Overlay != "":
		return nil, usage("--overlay needs the frame's pixels, and with --frame only the server has them")
	}
	return &frame{name: "frame", resident: c.Resident}, nil
}

// reductions decides what to ask for: the choice of a recipe or of a regions file where there is one and no flag
// speaks, and else what the output shows.
func (c *reduceCmd) reductions(t *target) (*polyscanv1.Reductions, error) {
	fallback := tableReductions()
	if c.JSON {
		fallback = jsonReductions()
	}
	r, err := t.reductions(&c.reductionFlags, fallback)
	if r == nil && err == nil && c.Plot != "" { // of a recipe
		r, err = c.reductionFlags.message(fallback)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case c.Plot != "" && len(c.Texture) > 0:
		r.Cooccurrence.Counts = true
	case c.Plot != "" && len(c.Correlate) > 0:
	case c.Plot != "":
		reductions.Add(r, polyscanv1.Statistic_STATISTIC_HISTOGRAM)
	}
	return r, nil
}

// pictures draws what was asked for.
func (c *reduceCmd) pictures(f *frame, regions *regions, res *polyscanv1.FrameResult) error {
	if c.Overlay != "" {
		img, err := f.picture()
		if err != nil {
			return err
		}
		o := &overlay{frame: img, title: filepath.Base(f.name), verdict: res.GetVerdict(), size: c.OverlaySize}
		outlines, err := regions.outlinesAt(poseOf(res.GetPose()))
		if err != nil {
			return err
		}
		for _, g := range res.GetRegions() {
			r := regions.file.Regions[g.GetIndex()]
			o.regions = append(o.regions, overlayRegion{name: r.Name,
				rings: outlines[g.GetIndex()], evenOdd: regions.evenOdd(r), verdict: g.GetVerdict()})
		}
		out, err := o.draw()
		if err != nil {
			return err
		}
		if err := writePicture(c.Overlay, out); err != nil {
			return err
		}
	}
	if c.Plot != "" {
		draw := plotHistograms
		if len(c.Texture) > 0 {
			draw = plotTextures
		} else if len(c.Correlate) > 0 {
			draw = plotCorrelations
		}
		out, err := draw(filepath.Base(f.name), res)
		if err != nil {
			return err
		}
		return writePicture(c.Plot, out)
	}
	return nil
}

// maxOverlaySize bounds --overlay-size.
const maxOverlaySize = 16384

// pictureKinds are what writePicture writes, which is no standard output.
const pictureKinds = ".png .jpg .jpeg"

// writePicture writes a PNG or JPEG, by the extension.
func writePicture(name string, img image.Image) error {
	return writeFile(name, func(w io.Writer) error {
		if strings.EqualFold(filepath.Ext(name), ".png") {
			return (&png.Encoder{CompressionLevel: png.DefaultCompression}).Encode(w, img)
		}
		return jpeg.Encode(w, img, &jpeg.Options{Quality: 90})
	})
}

// writeFile makes a file whole or not at all. What is there and no regular file, such as a device, is written to as it
// is.
func writeFile(name string, write func(io.Writer) error) (err error) {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		if st.IsDir() {
			return bad(name, "it is a folder")
		}
		return writeDevice(name, write)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".polyscan-*")
	if err != nil {
		return bad(name, "%v", reason(err))
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = notWritten(name, err)
		}
	}()
	if err = write(f); err != nil {
		f.Close()
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func writeDevice(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		return notWritten(name, err)
	}
	return nil
}

// notWritten is why a file was not: an error of the file, or of the server whose answer goes there.
func notWritten(name string, err error) error {
	if clients.AsError(err) != nil || errors.Is(err, context.Canceled) {
		return err
	}
	return bad(name, "%v", reason(err))
}
