package main

// polyscan locate: where the part lies in a frame.

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type locateCmd struct {
	// The frame: a PNG, JPEG, TIFF or BMP file, raw pixels with --raw, or - for standard input.
	Frame string `arg:"" predictor:"file"`

	regionFlags
	// Regions and limits stored on the server, instead of --regions; VERSION defaults to the latest.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe" without:"addr"`
	frameFlags
	flatFlags
	nameFlags

	// Print one JSON object instead of the table.
	JSON bool `group:"output" name:"json"`
	// Draw the marks and the regions where they were found over the frame into this PNG or JPEG.
	Overlay string `placeholder:"FILE" predictor:"file" group:"output"`
	// Longest side of the frame in the overlay, in pixels; small frames are enlarged by default.
	OverlaySize int `placeholder:"PX" group:"output" needs:"overlay"`

	deviceFlags
	serverFlags
}

func (c *locateCmd) Help() string {
	return `
Finds the part by the locate section of the regions file or recipe: the centre of each fiducial, the pose that fits
them, and whether it may be.

Examples:

    polyscan locate testdata/moved/board.png -r testdata/moved/board.recipe.json
    polyscan locate board.png --recipe board --addr inspector:7465 --overlay found.png

Exit codes: 0 found; 1 the part was not found; 2 wrong arguments or bad input; 3 the server, or the way to it, failed;
130 interrupted.
`
}

func (c *locateCmd) Run(e *env) (err error) {
	if c.OverlaySize < 0 || c.OverlaySize > maxOverlaySize {
		return usage("--overlay-size %d: must be 1 to %d", c.OverlaySize, maxOverlaySize)
	}
	if err := checkOutputs(inputs{c.Frame, c.Regions, c.Flat}, output{"--overlay", c.Overlay, pictureKinds}); err != nil {
		return err
	}
	t, err := c.target(e, c.Recipe, c.Frame, false)
	if err != nil {
		return err
	}
	f, err := c.frameFlags.load(e, c.Frame)
	if err != nil {
		return err
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	regions, err := t.known(conn)
	if err != nil {
		return err
	}
	if regions.file.Locate == nil {
		return usage("%s has no locate section", regions.name)
	}
	in := t.inspection(nil)
	in.Name = c.Name
	if in.FlatField, err = c.field(e, t.regions); err != nil {
		return err
	}
	start := time.Now()
	res, err := conn.Reduce(conn.ctx, in, f.message())
	if err != nil {
		return conn.fail(err, f.name, t.regions)
	}
	total := time.Since(start)
	l := res.GetLocation()
	if c.JSON {
		err = writeJSON(e.stdout, struct {
			Frame string `json:"frame"`
			*locationReport
		}{f.name, locationOf(l)})
	} else if err = writeMarks(e, e.stdout, l); err == nil {
		_, err = fmt.Fprintf(e.stdout, "\n%s: %s, in %s\n%s\n", cli.Printable(f.name), res.GetBackend(), pretty(total),
			locationText(e, l))
	}
	if err != nil {
		return err
	}
	if c.Overlay != "" {
		if err := drawLocation(c.Overlay, c.OverlaySize, f, regions, res); err != nil {
			return err
		}
	}
	if !l.GetFound() {
		return errRejected
	}
	return nil
}

// locationReport is where a part lies, as --json has it.
type locationReport struct {
	Found    bool         `json:"found"`
	Reason   *string      `json:"reason"` // why it was not
	Pose     []float64    `json:"pose"`   // a, b, c, d, e, f
	Rotation *float64     `json:"rotation"`
	ScaleX   *float64     `json:"scale_x"`
	ScaleY   *float64     `json:"scale_y"`
	Slant    *float64     `json:"slant"`
	Residual *float64     `json:"residual"`
	Marks    []markReport `json:"fiducials"`
}

type markReport struct {
	Name      string      `json:"name"`
	Found     bool        `json:"found"`
	Reason    *string     `json:"reason"`
	At        *[2]float64 `json:"at"`
	Area      *uint32     `json:"area"`
	Threshold *float64    `json:"threshold"`
	Residual  *float64    `json:"residual"`
}

func locationOf(l *polyscanv1.Location) *locationReport {
	if l == nil {
		return nil
	}
	r := &locationReport{Found: l.GetFound(), Pose: l.GetPose().GetAffine(),
		Marks: make([]markReport, len(l.GetFiducials()))}
	if !l.GetFound() {
		r.Reason = &l.Reason
	}
	if l.GetPose() != nil {
		r.Rotation, r.ScaleX, r.ScaleY, r.Slant, r.Residual = &l.Rotation, &l.ScaleX, &l.ScaleY, &l.Slant, &l.Residual
	}
	for i, f := range l.GetFiducials() {
		m := &r.Marks[i]
		m.Name, m.Found, m.Residual = f.GetName(), f.GetFound(), f.Residual
		if !m.Found {
			m.Reason = &f.Reason
			continue
		}
		m.At, m.Area, m.Threshold = &[2]float64{f.GetAt().GetX(), f.GetAt().GetY()}, &f.Area, &f.Threshold
	}
	return r
}

// writeMarks prints a row for each fiducial.
func writeMarks(e *env, w io.Writer, l *polyscanv1.Location) error {
	t := &table{columns: []column{{title: "FIDUCIAL"}, {title: "X", right: true}, {title: "Y", right: true},
		{title: "AREA", right: true}, {title: "THRESHOLD", right: true}, {title: "RESIDUAL", right: true}}}
	for _, f := range l.GetFiducials() {
		row := []cell{{text: cli.Printable(f.GetName())}, {text: "-"}, {text: "-"}, {text: "-"}, {text: "-"}, {text: "-"}}
		if f.GetFound() {
			row[1].text, row[2].text = places(f.GetAt().GetX()), places(f.GetAt().GetY())
			row[3].text, row[4].text = strconv.Itoa(int(f.GetArea())), fixed(f.GetThreshold())
		} else {
			row[0].style = cli.Red
		}
		if f.Residual != nil {
			row[5].text = places(f.GetResidual())
		}
		t.add(row...)
	}
	return t.write(e, w)
}

// places writes a length in pixels to a thousandth.
func places(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// locationText says where the part lies, or why it was not found.
func locationText(e *env, l *polyscanv1.Location) string {
	if !l.GetFound() {
		return e.paint(cli.Red, "NOT FOUND") + ": " + cli.Printable(l.GetReason())
	}
	p := l.GetPose().GetAffine()
	text := e.paint(cli.Green, "FOUND") + fmt.Sprintf(": turned by %.3f°, scaled by %.5f", l.GetRotation(), l.GetScaleX())
	if l.GetScaleX() != l.GetScaleY() {
		text += fmt.Sprintf(" and %.5f, slanted by %.3f°", l.GetScaleY(), l.GetSlant())
	}
	return text + fmt.Sprintf("; (0, 0) comes to (%.2f, %.2f); residual %.3f px", p[2], p[5], l.GetResidual())
}

// drawLocation draws the marks, and the regions where the part lies, over the frame.
func drawLocation(name string, size int, f *frame, regions *regions, res *polyscanv1.FrameResult) error {
	img, err := f.picture()
	if err != nil {
		return err
	}
	o := &overlay{frame: img, title: filepath.Base(f.name), verdict: res.GetVerdict(), size: size, found: "marks"}
	if res.GetLocation().GetFound() {
		outlines, err := regions.outlinesAt(poseOf(res.GetPose()))
		if err != nil {
			return err
		}
		for _, g := range res.GetRegions() {
			r := regions.file.Regions[g.GetIndex()]
			o.regions = append(o.regions, overlayRegion{name: r.Name, rings: outlines[g.GetIndex()],
				evenOdd: regions.evenOdd(r), verdict: g.GetVerdict()})
		}
	}
	for _, m := range res.GetLocation().GetFiducials() {
		if !m.GetFound() {
			continue
		}
		r := math.Sqrt(float64(m.GetArea())/math.Pi) * 1.6
		var ring, hole [][2]float64
		for k := range 48 {
			sin, cos := math.Sincos(float64(k) * math.Pi / 24)
			ring = append(ring, [2]float64{m.GetAt().GetX() + r*cos, m.GetAt().GetY() + r*sin})
			hole = append(hole, [2]float64{m.GetAt().GetX() + 0.1*r*cos, m.GetAt().GetY() + 0.1*r*sin})
		}
		o.regions = append(o.regions, overlayRegion{name: m.GetName(), rings: [][][2]float64{ring, hole}, evenOdd: true,
			blob: true})
	}
	out, err := o.draw()
	if err != nil {
		return err
	}
	return writePicture(name, out)
}
