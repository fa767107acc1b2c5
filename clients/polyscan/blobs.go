package main

// polyscan blobs: what is connected and bright, or dark, in the regions of a frame.

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type blobsCmd struct {
	// The frame: a PNG, JPEG, TIFF or BMP file, raw pixels with --raw, or - for standard input.
	Frame string `arg:"" predictor:"file"`

	// What is foreground, and which blobs count, such as '>= 128, open 3x3, min area 12'; a recipe says it itself.
	Find string `placeholder:"SPEC" group:"numbers"`
	regionFlags
	// Regions and limits stored on the server, instead of --regions; VERSION defaults to the latest.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe" without:"addr"`
	frameFlags
	poseFlags
	nameFlags

	// Print one JSON object instead of the table.
	JSON bool `group:"output" name:"json"`
	// Print a line for each blob, as CSV.
	CSV bool `group:"output" name:"csv"`
	// Draw blobs and regions over the frame into this PNG or JPEG.
	Overlay string `placeholder:"FILE" predictor:"file" group:"output"`
	// Longest side of the frame in the overlay, in pixels; small frames are enlarged by default.
	OverlaySize int `placeholder:"PX" group:"output" needs:"overlay"`
	// Exit with 1 if the verdict is FAIL; a region must have limits, or the part be searched for.
	FailOnReject bool `group:"output"`

	deviceFlags
	serverFlags
}

func (c *blobsCmd) Help() string {
	return `
Lists the blobs of each region: pixels that are connected, and whose samples are in a range. Without --regions and
--recipe the frame is one region.

SPEC is parts with commas between them: the range, as '>= 128', '<= 40' or '40 to 90', of samples, of percentiles
of the region ('>= 99 %') or of standard deviations from its mean ('>= 3 sd'); and any of 'strong RANGE' (blobs need a
pixel in it), 'channel r', 'open 3x3', 'close disc 2', 'erode …', 'dilate …', 'min area N', 'most N', 'by area',
'4-connected' and 'contours'.

Examples:

    polyscan blobs testdata/metal.png --find '<= 60, min area 20' --overlay blobs.png
    polyscan blobs plank.png -r plank.regions.json --find '<= 3 %, close disc 2, min area 50, by area'
    polyscan blobs board.png -r board.json --find '>= 200' --limit 'U*: max blob.length <= 3 mm' --scale 0.05
    polyscan blobs board.png --recipe board --addr inspector:7465 --fail-on-reject

Exit codes: 0 done; 1 the verdict is FAIL and --fail-on-reject was given; 2 wrong arguments or bad input; 3 the
server, or the way to it, failed; 130 interrupted.
`
}

func (c *blobsCmd) Run(e *env) (err error) {
	switch {
	case c.OverlaySize < 0 || c.OverlaySize > maxOverlaySize:
		return usage("--overlay-size %d: must be 1 to %d", c.OverlaySize, maxOverlaySize)
	case c.JSON && c.CSV:
		return usage("--json and --csv: give one of them")
	case c.Find == "" && c.Recipe == "":
		return usage("--find: say what is foreground, such as '>= 128'")
	}
	if err := checkOutputs(inputs{c.Frame, c.Regions}, output{"--overlay", c.Overlay, pictureKinds}); err != nil {
		return err
	}
	f, err := c.frameFlags.load(e, c.Frame)
	if err != nil {
		return err
	}
	var r *polyscanv1.Reductions
	if c.Find != "" {
		r = tableReductions()
		if r.Blobs, err = reductions.ParseBlobs(c.Find); err != nil {
			return usage("--find: %v", err)
		}
		r.Blobs.Contours = r.Blobs.Contours || c.Overlay != ""
	}
	t, err := c.regionsOrAll(e, f)
	if err != nil {
		return err
	}
	if t.recipe == nil { // its limits are about its own
		own := t.regions.reductions
		r.Cooccurrence, r.ColorMatrix = own.GetCooccurrence(), own.GetColorMatrix()
		if err := t.regions.checkAsked(r); err != nil {
			return err
		}
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	conn.blobs = "--find"
	if c.FailOnReject {
		if err := t.requireLimits(conn, &c.poseFlags); err != nil {
			return err
		}
	}
	drawn := t.regions
	if t.recipe != nil {
		stored, err := conn.GetRecipe(conn.ctx, t.recipe.GetName(), t.recipe.GetVersion())
		if err != nil {
			return conn.fail(err, "", nil)
		}
		drawn = fromRecipe(stored)
		t.recipe.Version = stored.GetVersion()
		if r == nil {
			if r = stored.GetReductions(); r.GetBlobs() == nil {
				return usage("--recipe %s: it finds no blobs: say --find SPEC", cli.Printable(c.Recipe))
			}
			r.Blobs.Contours = r.Blobs.Contours || c.Overlay != ""
		} else { // which the recipe's limits are about
			r.Cooccurrence, r.ColorMatrix = stored.GetReductions().GetCooccurrence(), stored.GetReductions().GetColorMatrix()
		}
	}
	start := time.Now()
	in, m := t.inspection(r), f.message()
	in.Name = c.Name
	if in.Pose, err = c.poseFlags.message(); err != nil {
		return err
	}
	res, err := conn.Reduce(conn.ctx, in, m)
	if err != nil {
		return conn.fail(err, f.name, t.regions)
	}
	total := time.Since(start)
	switch {
	case c.JSON:
		err = writeJSON(e.stdout, reportOf(f.name, res, askedPercentiles(r)))
	case c.CSV:
		if err = drawn.checkCoverage(e, f.name, res); err != nil {
			return err
		}
		if why := whyFailed(res); why != "" { // for which the rows have no room
			e.warn("%s: FAIL: %s", f.name, why)
		}
		err = writeBlobsCSV(e.stdout, res)
	default:
		if err = errors.Join(writeBlobs(e, e.stdout, res, ""), writeReasons(e, e.stdout, res)); err == nil {
			err = writeSummary(e, e.stdout, f.name, res, total)
		}
		if err == nil {
			err = c.writeUnsearched(e.stdout, drawn)
		}
	}
	if err != nil {
		return err
	}
	if c.Overlay != "" {
		if err := drawBlobs(c.Overlay, c.OverlaySize, f, drawn, res); err != nil {
			return err
		}
	}
	if c.FailOnReject && res.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
		return errRejected
	}
	return nil
}

// regionsOrAll is the target that the flags say, or all of the frame.
func (c *blobsCmd) regionsOrAll(e *env, f *frame) (*target, error) {
	if c.Recipe != "" || c.Regions != "" {
		return c.judged(e, c.Recipe, c.Frame, c.FailOnReject)
	}
	if err := c.checkFile(); err != nil {
		return nil, err
	}
	img, err := f.picture()
	if err != nil {
		return nil, err
	}
	b := img.Bounds()
	w, h := float64(b.Dx()), float64(b.Dy())
	file := &regionfile.File{Regions: []regionfile.Region{{Name: "frame",
		Rings: [][][2]float64{{{0, 0}, {w, 0}, {w, h}, {0, h}}}}}}
	all, err := c.complete(e, "the frame", file, false)
	return &target{regions: all, method: methods[c.Method]}, err
}

// drawBlobs draws the blobs of a result, and the regions, over the frame.
func drawBlobs(name string, size int, f *frame, regions *regions, res *polyscanv1.FrameResult) error {
	img, err := f.picture()
	if err != nil {
		return err
	}
	o := &overlay{frame: img, title: filepath.Base(f.name), verdict: res.GetVerdict(), size: size}
	outlines, err := regions.outlinesAt(poseOf(res.GetPose()))
	if err != nil {
		return err
	}
	for _, g := range res.GetRegions() {
		r := regions.file.Regions[g.GetIndex()]
		o.regions = append(o.regions, overlayRegion{name: r.Name, rings: outlines[g.GetIndex()],
			evenOdd: regions.evenOdd(r), verdict: g.GetVerdict()})
	}
	for _, g := range res.GetRegions() {
		for k, b := range g.GetBlobs().GetBlobs() {
			o.regions = append(o.regions, overlayRegion{name: strconv.Itoa(k + 1), rings: contourOf(b), evenOdd: true,
				blob: true})
		}
	}
	out, err := o.draw()
	if err != nil {
		return err
	}
	return writePicture(name, out)
}

func contourOf(b *polyscanv1.Blob) (rings [][][2]float64) {
	for _, r := range b.GetContour() {
		var ring [][2]float64
		for xy := r.GetXy(); len(xy) >= 2; xy = xy[2:] {
			ring = append(ring, [2]float64{xy[0], xy[1]})
		}
		rings = append(rings, ring)
	}
	return rings
}

// maxBlobRows is how many blobs of a region the table lists; JSON and CSV have them all.
const maxBlobRows = 20

// blobColumns turn a blob's numbers into cells of the table and of CSV; those in mm where the regions have a scale.
var blobColumns = []struct {
	title, csv string
	get        func(b *polyscanv1.Blob) (string, bool)
}{
	{"AT", "x", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetCentroid().GetX()), true }},
	{"", "y", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetCentroid().GetY()), true }},
	{"AREA", "area", func(b *polyscanv1.Blob) (string, bool) { return strconv.FormatUint(b.GetArea(), 10), true }},
	{"LENGTH", "length", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetLength()), true }},
	{"BREADTH", "breadth", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetBreadth()), true }},
	{"ANGLE", "angle", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetAngle()), true }},
	{"PERIMETER", "perimeter", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetPerimeter()), true }},
	{"ROUND", "roundness", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetRoundness()), true }},
	{"HOLES", "holes", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetHoles())), true }},
	{"MEAN", "mean", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetMean()), true }},
	{"", "stddev", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetStddev()), true }},
	{"", "min", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetMin())), true }},
	{"", "max", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetMax())), true }},
	{"", "sum", func(b *polyscanv1.Blob) (string, bool) { return strconv.FormatUint(b.GetSum(), 10), true }},
	{"", "sides", func(b *polyscanv1.Blob) (string, bool) { return strconv.FormatUint(b.GetSides(), 10), true }},
	{"", "x0", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetBounds().GetX0())), true }},
	{"", "y0", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetBounds().GetY0())), true }},
	{"", "x1", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetBounds().GetX1())), true }},
	{"", "y1", func(b *polyscanv1.Blob) (string, bool) { return strconv.Itoa(int(b.GetBounds().GetY1())), true }},
	{"", "x_mm", func(b *polyscanv1.Blob) (string, bool) {
		return fixed(b.GetCentroidMm().GetX()), b.CentroidMm != nil
	}},
	{"", "y_mm", func(b *polyscanv1.Blob) (string, bool) {
		return fixed(b.GetCentroidMm().GetY()), b.CentroidMm != nil
	}},
	{"MM2", "area_mm2", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetAreaMm2()), b.AreaMm2 != nil }},
	{"LENGTH/MM", "length_mm", func(b *polyscanv1.Blob) (string, bool) {
		return fixed(b.GetLengthMm()), b.LengthMm != nil
	}},
	{"", "breadth_mm", func(b *polyscanv1.Blob) (string, bool) { return fixed(b.GetBreadthMm()), b.BreadthMm != nil }},
	{"", "perimeter_mm", func(b *polyscanv1.Blob) (string, bool) {
		return fixed(b.GetPerimeterMm()), b.PerimeterMm != nil
	}},
}

func fixed(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// writeBlobs prints the blobs of a frame, region by region, behind some text; nothing where there are none.
func writeBlobs(e *env, w io.Writer, res *polyscanv1.FrameResult, before string) error {
	t := &table{columns: []column{{title: "REGION"}, {"INSIDE", true}, {"BLOBS", true}, {"#", true}}}
	scaled := false
	for _, g := range res.GetRegions() {
		scaled = scaled || g.AreaMm2 != nil
	}
	shown := func(title, csv string) bool {
		return title != "" && (scaled || csv != "area_mm2" && csv != "length_mm")
	}
	for _, k := range blobColumns {
		if shown(k.title, k.csv) {
			t.columns = append(t.columns, column{k.title, true})
		}
	}
	some := false
	for _, g := range res.GetRegions() {
		all := g.GetBlobs()
		if all == nil {
			continue
		}
		some = true
		count := strconv.FormatUint(all.GetKept(), 10)
		if all.GetFound() != all.GetKept() {
			count += " of " + strconv.FormatUint(all.GetFound(), 10)
		}
		head := []cell{{text: e.fit(cli.Printable(g.GetName()), maxNameColumns)}, {}, {text: count}}
		if reachesOutside(g) {
			head[1] = coverageCell(g)
		}
		for k, b := range all.GetBlobs() {
			if k == maxBlobRows {
				break
			}
			row := append(head, cell{text: strconv.Itoa(k + 1)})
			for _, col := range blobColumns {
				if !shown(col.title, col.csv) {
					continue
				}
				text, _ := col.get(b)
				if col.title == "AT" {
					text += "," + fixed(b.GetCentroid().GetY())
				}
				row = append(row, cell{text: text})
			}
			t.add(row...)
			head = []cell{{}, {}, {}}
		}
		if len(all.GetBlobs()) == 0 {
			t.add(head...)
		} else if n := int(all.GetKept()) - maxBlobRows; n > 0 {
			t.add(cell{}, cell{}, cell{text: fmt.Sprintf("%d more", n)})
		}
	}
	if !some {
		return nil
	}
	t.dropEmpty("INSIDE")
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	return t.write(e, w)
}

// checkCoverage warns of regions that reach outside the frame, whose blobs are those of the rest of them.
func (r *regions) checkCoverage(e *env, frame string, res *polyscanv1.FrameResult) error {
	var outside []*polyscanv1.RegionResult
	for _, g := range res.GetRegions() {
		if reachesOutside(g) {
			outside = append(outside, g)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	least := slices.MinFunc(outside, func(a, b *polyscanv1.RegionResult) int {
		return cmp.Compare(a.GetCoverage(), b.GetCoverage())
	})
	more := ""
	if n := len(outside) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more reach outside it", n)
	}
	return r.warn(e, "%s of region %q lie inside %s%s", coverageCell(least).text, least.GetName(), frame, more)
}

// writeBlobsCSV prints a line for each blob.
func writeBlobsCSV(w io.Writer, res *polyscanv1.FrameResult) error {
	out := csv.NewWriter(w)
	title := []string{"region", "index", "blob"}
	for _, k := range blobColumns {
		title = append(title, k.csv)
	}
	if err := out.Write(title); err != nil {
		return err
	}
	for _, g := range res.GetRegions() {
		for k, b := range g.GetBlobs().GetBlobs() {
			line := []string{g.GetName(), strconv.Itoa(int(g.GetIndex())), strconv.Itoa(k + 1)}
			for _, col := range blobColumns {
				text, ok := col.get(b)
				if !ok {
					text = ""
				}
				line = append(line, text)
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// blobsReport is the blobs of a region in JSON.
type blobsReport struct {
	Found   uint64       `json:"found"`
	Kept    uint64       `json:"kept"`
	Area    uint64       `json:"area"`
	AreaMM2 *float64     `json:"area_mm2,omitempty"`
	TooMany bool         `json:"too_many,omitempty"`
	Blobs   []blobReport `json:"blobs"`
}

type blobReport struct {
	First     *[2]uint32     `json:"first"`
	Area      uint64         `json:"area"`
	Bounds    [4]uint32      `json:"bounds"`
	Centroid  *[2]float64    `json:"centroid"`
	Length    float64        `json:"length"`
	Breadth   float64        `json:"breadth"`
	Angle     float64        `json:"angle"`
	Sides     uint64         `json:"sides"`
	Perimeter float64        `json:"perimeter"`
	Roundness float64        `json:"roundness"`
	Holes     uint32         `json:"holes"`
	Sum       uint64         `json:"sum"`
	Min       uint32         `json:"min"`
	Max       uint32         `json:"max"`
	Mean      float64        `json:"mean"`
	StdDev    float64        `json:"stddev"`
	Contour   [][][2]float64 `json:"contour,omitempty"`

	AreaMM2     *float64    `json:"area_mm2,omitempty"`
	CentroidMM  *[2]float64 `json:"centroid_mm,omitempty"`
	LengthMM    *float64    `json:"length_mm,omitempty"`
	BreadthMM   *float64    `json:"breadth_mm,omitempty"`
	PerimeterMM *float64    `json:"perimeter_mm,omitempty"`
}

func blobsOf(r *polyscanv1.RegionBlobs) *blobsReport {
	if r == nil {
		return nil
	}
	out := &blobsReport{Found: r.GetFound(), Kept: r.GetKept(), Area: r.GetArea(), AreaMM2: r.AreaMm2,
		TooMany: r.GetTooMany(), Blobs: make([]blobReport, len(r.GetBlobs()))}
	for i, b := range r.GetBlobs() {
		box := b.GetBounds()
		out.Blobs[i] = blobReport{
			First: position(b.GetFirst()), Area: b.GetArea(), Centroid: point(b.GetCentroid()),
			Bounds: [4]uint32{box.GetX0(), box.GetY0(), box.GetX1(), box.GetY1()},
			Length: b.GetLength(), Breadth: b.GetBreadth(), Angle: b.GetAngle(), Sides: b.GetSides(),
			Perimeter: b.GetPerimeter(), Roundness: b.GetRoundness(), Holes: b.GetHoles(), Sum: b.GetSum(),
			Min: b.GetMin(), Max: b.GetMax(), Mean: b.GetMean(), StdDev: b.GetStddev(), Contour: contourOf(b),
			AreaMM2: b.AreaMm2, CentroidMM: point(b.GetCentroidMm()), LengthMM: b.LengthMm, BreadthMM: b.BreadthMm,
			PerimeterMM: b.PerimeterMm,
		}
	}
	return out
}
