package main

// REGIONS files and recipes: what to look at in a frame.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/clients/regionfile"
	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"google.golang.org/protobuf/proto"
)

// regionFlags choose the regions.
type regionFlags struct {
	// Regions: polyscan's own JSON, LabelMe, COCO, GeoJSON, SVG or PNG masks, recognised by content; - is standard
	// input.
	Regions string `short:"r" placeholder:"FILE" predictor:"file" group:"regions"`
	// Fill rule of regions that don't say: nonzero or evenodd.
	Fill string `enum:"nonzero,evenodd" default:"nonzero" group:"regions" needs:"regions"`
	// Which image of a COCO file: its file name or id.
	Image string `placeholder:"NAME" group:"regions" needs:"regions"`
	// Largest distance in pixels between a curve of an SVG or LabelMe file and its polygon.
	Tolerance float64 `default:"0.0625" placeholder:"PX" group:"regions" needs:"regions"`
	// Take an SVG's coordinates as pixels, whatever its width, height and viewBox say.
	NoViewBox bool `group:"regions" name:"ignore-viewbox" needs:"regions"`
	// Make an error of what is only a warning, such as a key that looks misspelt.
	Strict bool `group:"regions" needs:"regions|shape|kept"`
	// Add a limit to the regions of this name, such as 'pad*: mean in [90, 140]'; * and ? stand for any letters.
	Limit []string `sep:"none" placeholder:"NAME: LIMIT" group:"regions"`
	// Add a region that is made of others, or of circles and rectangles: 'rim: band of "U7" inwards 4 px'.
	Shape []string `sep:"none" placeholder:"NAME: SHAPE" group:"regions"`
	// Millimetres per pixel, along x and y, and the place in pixels that is (0, 0): 0.05, or 0.05,0.04@12,40.
	Scale string `placeholder:"X[,Y][@LEFT,TOP]" group:"regions" needs:"regions|shape|recipe|find"`
	// How to find the pixels: naive, tiled, edge-filtered, tiled-edge-filtered or row-spans. All give the same
	// numbers.
	Method string `enum:"${mask_methods}" default:"auto" placeholder:"METHOD" group:"regions" needs:"regions|shape|recipe|find"`
}

// regionsCmd is polyscan regions: a regions file of any format as polyscan's own. Programs in other languages read
// files with it.
type regionsCmd struct {
	// Regions: polyscan's own JSON, LabelMe, COCO, GeoJSON, SVG or PNG masks, recognised by content; - is standard
	// input.
	File string `arg:"" predictor:"file"`
	// Which image of a COCO file: its file name or id.
	Image string `placeholder:"NAME"`
	// Name of the frame at hand, for a COCO file that describes several.
	Frame string `placeholder:"NAME"`
	// Largest distance in pixels between a curve of an SVG or LabelMe file and its polygon.
	Tolerance float64 `default:"0.0625" placeholder:"PX"`
	// Take an SVG's coordinates as pixels, whatever its width, height and viewBox say.
	NoViewBox bool `name:"ignore-viewbox"`
	// Make an error of what is only a warning, such as a key that looks misspelt.
	Strict bool
	// Add a limit to the regions of this name, such as 'pad*: mean in [90, 140]'; * and ? stand for any letters.
	Limit []string `sep:"none" placeholder:"NAME: LIMIT"`
	// Add a region that is made of others, or of circles and rectangles: 'rim: band of "U7" inwards 4 px'.
	Shape []string `sep:"none" placeholder:"NAME: SHAPE"`
	// Write what shapes come to: masks.
	Pixels bool
	// Millimetres per pixel, along x and y, and the place in pixels that is (0, 0): 0.05, or 0.05,0.04@12,40.
	Scale string `placeholder:"X[,Y][@LEFT,TOP]"`
	// File to write; - is standard output.
	Output string `short:"o" default:"-" placeholder:"FILE" predictor:"file"`
}

func (c *regionsCmd) Help() string {
	return `
Converts a regions file to the JSON that --regions and recipe put read: curves are polygons, masks are runs of pixels,
and every region has a name of its own.

Examples:

    polyscan regions zones.svg -o zones.json
    polyscan regions zones.svg --limit 'pad*: mean in [90, 140]' --limit 'pad*: count of pixels below 40 <= 25'
    polyscan regions instances.json --image board_0042.png
    polyscan regions labels.png -o labels.json
    polyscan regions board.regions.json --shape 'rim: band of "U1" inwards 4 px' --shape 'hole: circle(30, 40, 5)'
`
}

func (c *regionsCmd) Run(e *env) error {
	if err := checkOutputs(inputs{c.File}, output{"--output", c.Output, ".json"}); err != nil {
		return err
	}
	o := regionFlags{Regions: c.File, Image: c.Image, Tolerance: c.Tolerance, NoViewBox: c.NoViewBox, Strict: c.Strict,
		Limit: c.Limit, Shape: c.Shape, Scale: c.Scale}
	if err := o.checkFile(); err != nil {
		return err
	}
	r, err := o.load(e, c.Frame, true)
	if err != nil {
		return err
	}
	if err := r.checkKeys(); err != nil { // what is written has neither the key nor the warning
		return err
	}
	if r.hasLimits() {
		if _, err := r.build(true, polygon.Bounds{}); err != nil {
			return err
		}
	}
	f := r.file
	if c.Pixels {
		masks, err := r.masks()
		if err != nil {
			return err
		}
		for i := range f.Regions {
			if f.Regions[i].Shape != "" {
				if len(masks[i]) == 0 {
					return bad(r.name, "region %q comes to no pixel, and a mask needs at least 1: leave --pixels or the region out",
						f.Regions[i].Name)
				}
				f.Regions[i].Shape, f.Regions[i].Mask = "", masks[i]
			}
		}
	}
	fields := append([]jsonField{{"name", f.Name}, {"description", f.Description}}, scaleField(f)...)
	if len(f.Reductions) > 0 {
		fields = append(fields, jsonField{"reductions", f.Reductions})
	}
	if len(f.Frames) > 0 {
		fields = append(fields, jsonField{"frames", f.Frames})
	}
	fields = slices.Concat(fields, flatFieldField(f), locateField(f))
	text, err := regionsJSON(append(append(fields, drawnOnField(f)...), jsonField{"format", f.Format.String()}), f.Regions)
	if err != nil {
		return err
	}
	return writeText(e, c.Output, text)
}

// regions is a regions file after reading.
type regions struct {
	name   string
	file   *regionfile.File
	fill   string
	strict bool // warnings are errors

	reductions *polyscanv1.Reductions // that the file asks for; nil where it asks for none

	// What comes from flags, for errors to blame these.
	limits map[[2]int]string // names that --limit says, by the indices of the region and of its limit
	shapes int               // how many of the last regions are of --shape
	scaled bool              // the scale is --scale's
	asked  bool              // the reductions are those of the file, and no flag's
}

// place says where something of the regions comes from, by its path in a set: a flag, with a colon where a name is
// behind it, or the file and the element.
func (r *regions) place(path string) string {
	head, tail, _ := strings.Cut(path, ".")
	place := r.name + ": " + head
	if i, ok := index(head); ok && i < len(r.file.Regions) {
		name := r.file.Regions[i].Name
		k, _ := index(tail)
		switch of, given := r.limits[[2]int{i, k}]; {
		case strings.HasPrefix(tail, "limits[") && given && of == name:
			return "--limit " + cli.Printable(of) + ":"
		case strings.HasPrefix(tail, "limits[") && given:
			return fmt.Sprintf("--limit %s: of %q:", cli.Printable(of), name)
		case i >= len(r.file.Regions)-r.shapes:
			return "--shape " + cli.Printable(name) + ":"
		}
		place += " " + strconv.Quote(name)
	} else if head == "scale" && r.scaled {
		return "--scale"
	}
	if tail != "" {
		place += ": " + tail
	}
	return place
}

// refused is an error of a value of the regions.
func (r *regions) refused(path, value, why string) error {
	place := r.place(path)
	if value != "" && !strings.HasPrefix(place, "--") {
		place += " ="
	}
	return usage("%s: %s", strings.TrimSuffix(strings.TrimSpace(place+" "+value), ":"), why)
}

// load reads the file of --regions. hint is the name of the frame, for files that describe several. Regions that are not
// in pixels are an error where they have limits, or inPixels says so, and else a warning.
func (o *regionFlags) load(e *env, hint string, inPixels bool) (*regions, error) {
	opts := regionfile.Options{Image: o.Image, ImageHint: hint, Tolerance: o.Tolerance, IgnoreViewBox: o.NoViewBox}
	name := inputName(o.Regions)
	var file *regionfile.File
	var err error
	if o.Regions == "" { // shapes alone
		return o.complete(e, "--shape", &regionfile.File{}, false)
	}
	if o.Regions == "-" {
		var data []byte
		if data, err = readInput(e, "-", regionfile.DefaultMaxBytes); err != nil {
			return nil, err
		}
		file, err = regionfile.Parse(name, data, opts)
	} else {
		file, err = regionfile.Load(o.Regions, opts)
	}
	if err != nil {
		if errors.Is(err, regionfile.ErrOptions) {
			return nil, usage("--tolerance %v: must be from %v to %v px", o.Tolerance, regionfile.MinTolerance,
				regionfile.MaxTolerance)
		}
		return nil, &inputError{err.Error()}
	}
	return o.complete(e, name, file, inPixels)
}

// checkFile refuses a tolerance that stands for the default elsewhere.
func (o *regionFlags) checkFile() error {
	if o.Tolerance == 0 { // which would be the default
		return usage("--tolerance 0: must be from %v to %v px", regionfile.MinTolerance, regionfile.MaxTolerance)
	}
	return nil
}

// complete adds what the flags say to a file.
func (o *regionFlags) complete(e *env, name string, file *regionfile.File, inPixels bool) (*regions, error) {
	if err := o.checkEffect(name, file); err != nil {
		return nil, err
	}
	var err error
	r := &regions{name: name, file: file, fill: o.Fill, strict: o.Strict, limits: map[[2]int]string{}}
	inPixels = inPixels || r.hasLimits() || len(o.Limit) > 0
	for _, w := range file.Warnings {
		if w == file.NotPixels && inPixels {
			continue // it is an error below
		}
		if err := r.warn(e, "%s", w); err != nil {
			return nil, err
		}
	}
	if err := cli.CheckLocate(file.Locate); err != nil {
		return nil, bad(name, "%v", err)
	}
	if r.reductions, err = reductions.Parse(file.Reductions); err != nil {
		return nil, bad(name, "%v", err)
	}
	if o.Scale != "" {
		own := file.Scale
		r.scaled = true
		if file.Scale, err = parseScale(o.Scale); err != nil {
			return nil, err
		}
		if own != nil && *own != *file.Scale {
			err := r.warn(e, "--scale %s takes the place of the file's own scale, %s", o.Scale, formatScale(own))
			if err != nil {
				return nil, err
			}
		}
	}
	if s := file.Scale; s != nil && o.Scale == "" {
		if why := wrongScale(s); why != "" {
			return nil, bad(name, "scale: %s", why)
		}
	}
	if err := r.addShapes(o.Shape); err != nil {
		return nil, err
	}
	if err := r.addLimits(e, o.Limit); err != nil {
		return nil, err
	}
	if file.NotPixels != "" && inPixels {
		return nil, r.checkKeys()
	}
	return r, nil
}

// checkLimits warns of regions that nobody judges beside others that have limits, and of limits that hold on frames of any
// size.
func (r *regions) checkLimits(e *env) error {
	if text := cli.Limitless(r.file.Regions, len(r.file.Regions)); text != "" {
		if err := r.warn(e, "%s", text); err != nil {
			return err
		}
	}
	if text := cli.Unsized(r.file); text != "" {
		return r.warn(e, "%s", text)
	}
	return nil
}

// checkEffect refuses flags that change nothing of a file of its format.
func (o *regionFlags) checkEffect(name string, file *regionfile.File) error {
	f := file.Format
	switch {
	case o.Tolerance != 0 && o.Tolerance != regionfile.DefaultTolerance && f != regionfile.FormatSVG &&
		f != regionfile.FormatLabelMe:
		return usage("--tolerance has no effect on %s (%s): only SVG and LabelMe files have curves", name, f)
	case o.NoViewBox && f != regionfile.FormatSVG:
		return usage("--ignore-viewbox has no effect on %s (%s): only SVG files have a viewBox", name, f)
	case o.Fill == regionfile.FillEvenOdd && !slices.ContainsFunc(file.Regions, func(g regionfile.Region) bool {
		return g.Rings != nil && g.Fill == regionfile.FillDefault
	}):
		return usage("--fill has no effect on %s (%s): no region with rings leaves its fill rule open", name, f)
	}
	return nil
}

// addShapes adds the regions that --shape says.
func (r *regions) addShapes(shapes []string) error {
	for _, text := range shapes {
		name, shape, ok := strings.Cut(text, ":")
		name, shape = strings.TrimSpace(name), strings.TrimSpace(shape)
		if !ok || name == "" || shape == "" {
			return usage("--shape %q: want NAME: SHAPE, such as 'rim: band of \"U7\" inwards 4 px'", text)
		}
		if slices.ContainsFunc(r.file.Regions, func(g regionfile.Region) bool { return g.Name == name }) {
			return usage("--shape %q: there is a region of that name already", text)
		}
		r.file.Regions = append(r.file.Regions, regionfile.Region{Name: name, Shape: shape})
		r.shapes++
	}
	return nil
}

// hasShapes reports whether any region is made of others.
func (r *regions) hasShapes() bool {
	return slices.ContainsFunc(r.file.Regions, func(g regionfile.Region) bool { return g.Shape != "" })
}

// masks are the pixels of the regions that have shapes, and of those that are masks; nil of others.
func (r *regions) masks() ([][]regionfile.Run, error) {
	out := make([][]regionfile.Run, len(r.file.Regions))
	if !r.hasShapes() {
		for i, g := range r.file.Regions {
			out[i] = g.Mask
		}
		return out, nil
	}
	set, err := r.build(false, polygon.Bounds{})
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = runsOf(set.Pixels(i))
	}
	return out, nil
}

// polygons are the regions as package polygon takes them, with their limits or without.
func (r *regions) polygons(limits bool) []polygon.Region {
	list := make([]polygon.Region, len(r.file.Regions))
	for i, g := range r.file.Regions {
		list[i] = polygon.Region{Name: g.Name, Shape: g.Shape}
		if r.evenOdd(g) {
			list[i].Fill = polygon.EvenOdd
		}
		for _, u := range g.Mask {
			list[i].Mask = append(list[i].Mask, polygon.Run{Y: u[0], X0: u[1], X1: u[2]})
		}
		for _, ring := range g.Rings {
			var to polygon.Ring
			for _, p := range ring {
				to = append(to, polygon.Point{X: p[0], Y: p[1]})
			}
			list[i].Rings = append(list[i].Rings, to)
		}
		if limits {
			list[i].Limits = g.Limits
			if from := g.Reference; from != nil {
				list[i].Reference = &polygon.Reference{Region: from.Region, Counts: from.Counts}
			}
		}
	}
	return list
}

// build makes a set of the regions, with their limits or without, and more behind them. Limits in mm may wait for a
// scale that comes with the frames.
func (r *regions) build(limits bool, b polygon.Bounds, more ...polygon.Region) (*polygon.Set, error) {
	var scale *polygon.Scale // of shapes in mm
	if f := r.file.Scale; f != nil {
		scale = &polygon.Scale{X: f.MMPerPixel[0], Y: f.MMPerPixel[1],
			Origin: polygon.Point{X: f.Origin[0], Y: f.Origin[1]}}
	}
	set, err := polygon.NewSetInPieces(append(r.polygons(limits), more...), scale, b, nil)
	var invalid *kernels.InvalidError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			if !strings.HasSuffix(v.Reason, "the regions have no scale, and mm needs one") {
				return nil, r.refused(v.Path.String(), v.Value, v.Reason)
			}
		}
	} else if err != nil {
		return nil, bad(r.name, "%v", err)
	}
	return set, nil // nil where limits wait for a scale
}

// outlines are the rings of each region, or around its pixels.
func (r *regions) outlines() ([][][][2]float64, error) {
	masks, err := r.masks()
	if err != nil {
		return nil, err
	}
	out := make([][][][2]float64, len(masks))
	for i, g := range r.file.Regions {
		if g.Mask = masks[i]; g.Shape != "" && g.Mask == nil {
			continue // it comes to no pixel
		}
		out[i] = g.Outlines()
	}
	return out, nil
}

// parseScale reads --scale.
func parseScale(text string) (*regionfile.Scale, error) {
	pair := func(text string) (out [2]float64, ok bool) {
		x, y, two := strings.Cut(text, ",")
		if !two {
			y = x
		}
		var errX, errY error
		out[0], errX = digits.Float(strings.TrimSpace(x))
		out[1], errY = digits.Float(strings.TrimSpace(y))
		return out, errX == nil && errY == nil
	}
	size, origin, moved := strings.Cut(text, "@")
	s := &regionfile.Scale{}
	var ok bool
	if s.MMPerPixel, ok = pair(size); !ok || !(s.MMPerPixel[0] > 0 && s.MMPerPixel[1] > 0) {
		return nil, usage("--scale %q: want millimetres per pixel, such as 0.05 or 0.05,0.04@12,40", text)
	}
	if moved {
		if s.Origin, ok = pair(origin); !ok || !strings.Contains(origin, ",") {
			return nil, usage("--scale %q: want a place in pixels behind @, such as 0.05@12,40", text)
		}
	}
	if why := wrongScale(s); why != "" {
		return nil, usage("--scale %s", why)
	}
	return s, nil
}

// wrongScale says what the server would refuse of a scale.
func wrongScale(s *regionfile.Scale) string {
	of := &polygon.Scale{X: s.MMPerPixel[0], Y: s.MMPerPixel[1], Origin: polygon.Point{X: s.Origin[0], Y: s.Origin[1]}}
	triangle := []polygon.Region{{Rings: []polygon.Ring{{{}, {X: 1}, {Y: 1}}}}}
	_, err := polygon.NewSetInPieces(triangle, of, polygon.Bounds{}, nil)
	if wrong, ok := errors.AsType[*kernels.InvalidError](err); ok {
		return wrong.Violations[0].Value + ": " + wrong.Violations[0].Reason
	}
	return ""
}

// formatScale writes what parseScale reads.
func formatScale(s *regionfile.Scale) string {
	return fmt.Sprintf("%s,%s@%s,%s", number(s.MMPerPixel[0]), number(s.MMPerPixel[1]), number(s.Origin[0]),
		number(s.Origin[1]))
}

// scaleField is the scale as a regions file has it.
func scaleField(f *regionfile.File) []jsonField {
	if f.Scale == nil {
		return nil
	}
	return []jsonField{{"scale", f.Scale}}
}

// locateField is how a file locates its part, as a regions file has it.
func locateField(f *regionfile.File) []jsonField {
	if f.Locate == nil {
		return nil
	}
	return []jsonField{{"locate", f.Locate}}
}

// drawnOnField is the frame that the regions were drawn on as a regions file has it.
func drawnOnField(f *regionfile.File) []jsonField {
	if f.Image == "" && f.ImageWidth == 0 {
		return nil
	}
	on := map[string]any{"name": f.Image}
	if f.ImageWidth > 0 && f.ImageHeight > 0 {
		on["width"], on["height"] = f.ImageWidth, f.ImageHeight
	}
	return []jsonField{{"drawn_on", on}}
}

// addLimits adds what --limit says to the regions that it names, here or in the file: one name may be several regions'.
// It warns of those among several where the limit can't fail, and leaves it out there: they are as good as without.
func (r *regions) addLimits(e *env, limits []string) error {
	for _, text := range limits {
		at := strings.LastIndexByte(text, ':') // which names may hold, and limits don't
		if at < 0 {
			return usage("--limit %q: want NAME: LIMIT, such as 'pad*: mean in [90, 140]'", text)
		}
		name, limit := strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1:])
		pattern, err := regexp.Compile("(?s)^" + wildcards.Replace(regexp.QuoteMeta(name)) + "$")
		if err != nil {
			return usage("--limit %q: %v", text, err)
		}
		var named []int
		for i, g := range r.file.Regions {
			own, renamed := r.file.Renamed[g.Name]
			if pattern.MatchString(g.Name) || renamed && pattern.MatchString(own) {
				named = append(named, i)
			}
		}
		if len(named) == 0 {
			return usage("--limit %q: no region of %s is called %q", text, r.name, name)
		}
		idle, why, err := r.idle(named, limit)
		if err != nil {
			return err
		}
		if n := len(idle); n == len(named) {
			idle = nil // which is an error where they are judged
		} else if n > 0 {
			more := ""
			if n > 1 {
				more = fmt.Sprintf(" and %d more", n-1)
			}
			err := r.warn(e, "--limit %q: in region %q%s it %s, and is left out", text, r.file.Regions[idle[0]].Name, more, why)
			if err != nil {
				return err
			}
		}
		for _, i := range named {
			g := &r.file.Regions[i]
			if !slices.Contains(idle, i) {
				r.limits[[2]int{i, len(g.Limits)}] = name
				g.Limits = append(slices.Clip(g.Limits), limit)
			}
		}
	}
	return nil
}

// idle is in which of several regions a limit can't fail, whatever frames show, and why in the first of them.
func (r *regions) idle(named []int, limit string) (idle []int, why string, err error) {
	if len(named) < 2 {
		return nil, "", nil
	}
	masks, err := r.masks()
	if err != nil {
		return nil, "", err
	}
	for _, i := range named {
		g := r.file.Regions[i]
		if g.Shape != "" { // whose pixels others may make
			g.Shape, g.Mask = "", masks[i]
		}
		g.Limits, g.Reference = []string{limit}, nil
		alone := *r.file
		alone.Regions = []regionfile.Region{g}
		_, err := (&regions{name: r.name, file: &alone, fill: r.fill}).build(true, polygon.Bounds{})
		if _, reason, ok := strings.Cut(fmt.Sprint(err), "can't fail: "); ok {
			if idle = append(idle, i); why == "" {
				why = "can't fail: " + reason
			}
		}
	}
	return idle, why, nil
}

// wildcards makes a regular expression of a name with * and ?, once that is quoted.
var wildcards = strings.NewReplacer(`\*`, ".*", `\?`, ".")

// warn warns of something about the regions, or with --strict returns it as an error.
func (r *regions) warn(e *env, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.strict {
		return bad(r.name, "%s (--strict)", text)
	}
	e.warn("%s: %s", r.name, text)
	return nil
}

// checkLocate warns of regions that are found in each frame, where they are taken as they were drawn.
func (r *regions) checkLocate(e *env) error {
	if r.file.Locate == nil {
		return nil
	}
	return r.warn(e, "it has a locate section, but no part is searched for here: the regions are where they were drawn")
}

// checkSize warns where the file says that its regions were drawn on a frame of another size. The server refuses that
// where there are limits.
func (r *regions) checkSize(e *env, frame string, w, h uint32) error {
	if fw, fh := r.file.ImageWidth, r.file.ImageHeight; fw > 0 && fh > 0 && (uint32(fw) != w || uint32(fh) != h) {
		return r.warn(e, "its regions were drawn on %dx%d pixels, but %s has %dx%d", fw, fh, frame, w, h)
	}
	return nil
}

// checkInside refuses regions of which no pixel lies in a picture of a size, and warns of those that lie partly
// outside.
func (r *regions) checkInside(e *env, w, h int) error {
	var outside, crossing []int
	outlines, err := r.outlines()
	if err != nil {
		return err
	}
	masks, err := r.masks()
	if err != nil {
		return err
	}
	for k := range r.file.Regions {
		if len(outlines[k]) == 0 {
			continue // a shape that comes to no pixel, which lies nowhere
		}
		touches, within := true, true
		for i, size := range []int{w, h} {
			least, most := math.Inf(1), math.Inf(-1)
			for _, ring := range outlines[k] {
				for _, p := range ring {
					least, most = min(least, p[i]), max(most, p[i])
				}
			}
			touches = touches && least < float64(size) && most > 0
			within = within && least >= 0 && most <= float64(size)
		}
		switch {
		case !touches:
			outside = append(outside, k)
		case !within:
			crossing = append(crossing, k)
		}
	}
	worst, most := 0, 0.0
	partly := 0
	for _, k := range crossing {
		in, all, err := r.pixels(k, masks, w, h)
		switch {
		case err != nil:
			return err
		case in == 0 && all > 0:
			outside = append(outside, k)
		case in < all:
			if share := float64(all-in) / float64(all); share > most {
				worst, most = k, share
			}
			partly++
		}
	}
	more := func(n int, verb string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(" and %d more%s", n, verb)
	}
	if n := len(outside) - 1; n >= 0 {
		lie := " lies"
		if n > 0 {
			lie = more(n, " lie")
		}
		return bad(r.name, "region %q%s outside the picture of %dx%d", r.file.Regions[slices.Min(outside)].Name, lie, w, h)
	}
	if partly == 0 {
		return nil
	}
	// Rounded up, to less than all.
	return r.warn(e, "%s %% of region %q lie outside the picture of %dx%d%s", number(min(99.9, math.Ceil(1000*most)/10)),
		r.file.Regions[worst].Name, w, h, more(partly-1, " lie there in part"))
}

// pixels is how many pixels of a picture of a size a region holds, and how many at all. masks are those of all regions.
func (r *regions) pixels(k int, masks [][]regionfile.Run, w, h int) (in, all uint64, err error) {
	runs := masks[k]
	if g := r.file.Regions[k]; g.Shape == "" && g.Mask == nil {
		// The pixels of rings are those of a shape that is nothing but they, by a name that every shape can spell.
		only := &regions{name: r.name, fill: r.fill, file: &regionfile.File{Regions: []regionfile.Region{g}}}
		only.file.Regions[0].Name = "r"
		set, err := only.build(false, polygon.Bounds{}, polygon.Region{Name: "pixels", Shape: `"r"`})
		if err != nil {
			return 0, 0, err
		}
		runs = runsOf(set.Pixels(1))
	}
	for _, u := range runs {
		all += uint64(u[2] - u[1])
		if u[0] >= 0 && int(u[0]) < h {
			in += uint64(max(0, min(int(u[2]), w)-max(int(u[1]), 0)))
		}
	}
	return in, all, nil
}

// runsOf are pixels as regions files have them.
func runsOf(pixels []polygon.Run) (out []regionfile.Run) {
	for _, u := range pixels {
		out = append(out, regionfile.Run{u.Y, u.X0, u.X1})
	}
	return out
}

// hasLimits reports whether any region has a limit.
func (r *regions) hasLimits() bool {
	return slices.ContainsFunc(r.file.Regions, func(g regionfile.Region) bool { return len(g.Limits) > 0 })
}

// evenOdd reports whether a region's fill rule is even-odd.
func (r *regions) evenOdd(g regionfile.Region) bool {
	fill := g.Fill
	if fill == regionfile.FillDefault {
		fill = r.fill
	}
	return fill == regionfile.FillEvenOdd
}

// set is the regions as the server takes them, with their scale.
func (r *regions) set() *polyscanv1.RegionSet {
	m := cli.RegionSet(r.file)
	for i, g := range r.file.Regions {
		if r.evenOdd(g) {
			m.Regions[i].FillRule = polyscanv1.FillRule_FILL_RULE_EVEN_ODD
		}
	}
	return m
}

// fromRecipe is the regions of a stored recipe, to draw them.
func fromRecipe(r *polyscanv1.Recipe) *regions {
	f := &regionfile.File{Format: regionfile.FormatRecipe, Name: r.GetName(), Description: r.GetDescription()}
	if s := r.GetRegionSet().GetScale(); s != nil {
		f.Scale = &regionfile.Scale{MMPerPixel: [2]float64{s.GetX(), s.GetY()},
			Origin: [2]float64{s.GetOrigin().GetX(), s.GetOrigin().GetY()}}
		if s.GetY() == 0 {
			f.Scale.MMPerPixel[1] = s.GetX()
		}
	}
	f.Locate = cli.LocateOf(r.GetRegionSet().GetLocate())
	if s := r.GetFlatField().GetSha256(); s != "" {
		f.FlatField = "sha256:" + s
	}
	if s := r.GetRegionSet().GetDrawnOn(); s != nil {
		f.ImageWidth, f.ImageHeight = int(s.GetWidth()), int(s.GetHeight())
	}
	for _, m := range r.GetRegionSet().GetRegions() {
		g := regionfile.Region{Name: m.GetName(), Limits: m.GetLimits(), Shape: m.GetShape(),
			Fill: regionfile.FillNonZero}
		if m.GetFillRule() == polyscanv1.FillRule_FILL_RULE_EVEN_ODD {
			g.Fill = regionfile.FillEvenOdd
		}
		if from := m.GetReference(); from != nil {
			g.Reference = &regionfile.Reference{Region: from.GetRegion()}
			for _, c := range from.GetCounts() {
				g.Reference.Counts = append(g.Reference.Counts, c.GetCounts())
			}
		}
		if mask := m.GetMask(); mask != nil {
			g.Mask = []regionfile.Run{}
			for runs := mask.GetRuns(); len(runs) >= 3; runs = runs[3:] {
				g.Mask = append(g.Mask, regionfile.Run(runs[:3]))
			}
		}
		for _, ring := range m.GetRings() {
			xy := ring.GetXy()
			pts := make([][2]float64, len(xy)/2)
			for i := range pts {
				pts[i] = [2]float64{xy[2*i], xy[2*i+1]}
			}
			g.Rings = append(g.Rings, pts)
		}
		f.Regions = append(f.Regions, g)
	}
	return &regions{name: "recipe " + r.GetName(), file: f, fill: regionfile.FillNonZero}
}

var methods = map[string]polyscanv1.MaskMethod{
	"auto":                polyscanv1.MaskMethod_MASK_METHOD_UNSPECIFIED,
	"naive":               polyscanv1.MaskMethod_MASK_METHOD_NAIVE,
	"tiled":               polyscanv1.MaskMethod_MASK_METHOD_TILED,
	"edge-filtered":       polyscanv1.MaskMethod_MASK_METHOD_EDGE_FILTERED,
	"tiled-edge-filtered": polyscanv1.MaskMethod_MASK_METHOD_TILED_EDGE_FILTERED,
	"row-spans":           polyscanv1.MaskMethod_MASK_METHOD_ROW_SPANS,
}

func methodName(m polyscanv1.MaskMethod) string {
	for name, v := range methods {
		if v == m {
			return name
		}
	}
	return "unknown"
}

// target is what to inspect: regions from a file, or a recipe on the server.
type target struct {
	regions *regions // nil for a recipe
	recipe  *polyscanv1.RecipeRef
	method  polyscanv1.MaskMethod
}

// connect is [connect] for a command that may name a recipe: without a server and without a folder there is none.
func (t *target) connect(e *env, s *serverFlags, d *deviceFlags, recipeDir string) (*connection, error) {
	if t.recipe != nil && s.Addr == "" && recipeDir == "" {
		return nil, errNoRecipes
	}
	return connect(e, s, d, recipeDir)
}

// target decides between --regions and --recipe. inPixels is that of load.
func (o *regionFlags) target(e *env, recipe, frameName string, inPixels bool) (*target, error) {
	t := &target{method: methods[o.Method]}
	if err := o.checkFile(); err != nil {
		return nil, err
	}
	switch {
	case recipe != "" && o.Regions != "":
		return nil, usage("--regions and --recipe: give one of them")
	case recipe != "" && o.Scale != "":
		return nil, usage("--scale: it is for --regions; a recipe has the scale that it was put with")
	case recipe != "" && len(o.Shape) > 0:
		return nil, usage("--shape: it is for --regions; a recipe has the regions that it was put with")
	case recipe != "" && len(o.Limit) > 0:
		return nil, usage("--limit: it is for --regions; a recipe has the limits that it was put with")
	case recipe != "":
		ref, err := clients.ParseRecipeRef(recipe)
		if err != nil {
			return nil, usage("--recipe: %v", err)
		}
		t.recipe = ref
	case o.Regions == "" && len(o.Shape) == 0:
		return nil, usage("--regions FILE, --shape 'NAME: SHAPE' or --recipe NAME is missing")
	case o.Regions == "-" && frameName == "-":
		return nil, usage("the frame and --regions are both -: standard input holds one of them")
	default:
		r, err := o.load(e, filepath.Base(frameName), inPixels)
		if err != nil {
			return nil, err
		}
		t.regions = r
	}
	return t, nil
}

// judged is target for verdicts: it warns of regions that have none.
func (o *regionFlags) judged(e *env, recipe, frameName string, inPixels bool) (*target, error) {
	t, err := o.target(e, recipe, frameName, inPixels)
	if err == nil && t.regions != nil {
		err = t.regions.checkLimits(e)
	}
	return t, err
}

// flatFieldField is the flat field of a file.
func flatFieldField(f *regionfile.File) []jsonField {
	if f.FlatField == "" {
		return nil
	}
	return []jsonField{{"flat_field", f.FlatField}}
}

// checkKeys is [cli.CheckRead].
func (r *regions) checkKeys() error {
	if err := cli.CheckRead(r.file); err != nil {
		return bad(r.name, "%v", err)
	}
	return nil
}

// frames are those that the file names for its limits and for the correlations that are asked for: flags may ask for
// others than the file, and the server refuses a frame that nothing speaks of.
func (r *regions) frames(asked *polyscanv1.Reductions) map[string]string {
	frames := maps.Clone(r.file.Frames)
	maps.DeleteFunc(frames, func(name, _ string) bool {
		spoken := func(m *polyscanv1.Reductions) bool {
			return slices.ContainsFunc(m.GetCorrelations(), func(t *polyscanv1.CorrelationTerm) bool {
				return t.GetFrame() == name
			})
		}
		limited := slices.ContainsFunc(r.file.Regions, func(g regionfile.Region) bool {
			return slices.ContainsFunc(g.Limits, func(l string) bool {
				return strings.Contains(l, strconv.Quote(name))
			})
		})
		return spoken(r.reductions) && !spoken(asked) && !limited
	})
	return frames
}

// known is the regions of a target; of a recipe those on the server, of the version that is used from then on.
func (t *target) known(conn *connection) (*regions, error) {
	if t.recipe == nil {
		return t.regions, nil
	}
	stored, err := conn.GetRecipe(conn.ctx, t.recipe.GetName(), t.recipe.GetVersion())
	if err != nil {
		return nil, conn.fail(err, "", nil)
	}
	t.recipe.Version = stored.GetVersion()
	return fromRecipe(stored), nil
}

// requireLimits refuses a target with keys that nobody would read, and one by which no part can fail, on which
// --fail-on-reject would wait for ever: without limits, and without a part that is searched for.
func (t *target) requireLimits(conn *connection, p *poseFlags) error {
	r, err := t.known(conn)
	if err != nil {
		return err
	}
	if err := r.checkKeys(); err != nil {
		return err
	}
	if r.hasLimits() || r.file.Locate != nil && p.Pose == "" {
		return nil
	}
	with := map[bool]string{true: ", and with --pose no part is searched for"}[r.file.Locate != nil]
	return usage("--fail-on-reject: no region of %s has limits%s, so that nothing can be rejected", r.name, with)
}

// reductions are what flags ask for, or else the regions file; nil where a recipe decides, and fallback where nobody
// does.
func (t *target) reductions(o *reductionFlags, fallback *polyscanv1.Reductions) (*polyscanv1.Reductions, error) {
	switch {
	case o.set():
	case t.recipe != nil:
		return nil, nil
	case t.regions.reductions != nil:
		t.regions.asked = true
		return t.regions.reductions, nil
	}
	r, err := o.message(fallback)
	if err == nil && t.recipe == nil {
		err = t.regions.checkAsked(r)
	}
	return r, err
}

// checkAsked refuses reductions that flags put in the place of the file's where limits would be about something else:
// textures of other levels, colours by another matrix, or other blobs.
func (r *regions) checkAsked(asked *polyscanv1.Reductions) error {
	texture, matrix := r.reductions.GetCooccurrence() != nil, r.reductions.GetColorMatrix() != nil
	found, blobs := foundBlobs(r.reductions.GetBlobs()), r.reductions.GetBlobs() != nil && asked.GetBlobs() != nil
	if !texture && !matrix && !blobs || !r.hasLimits() {
		return nil
	}
	set, err := r.build(true, polygon.Bounds{Later: true}) // the server knows where they are judged
	if set == nil {
		return err
	}
	settings := func(m *polyscanv1.Reductions) *polygon.Reductions {
		s := &polygon.Reductions{}
		if levels := m.GetCooccurrence().GetLevels(); texture {
			s.Cooccurrence = &polygon.CooccurrenceSpec{Levels: int(levels)}
		}
		for i, v := range m.GetColorMatrix() {
			if matrix {
				s.Colors.Matrix[i/3][i%3] = v
			}
		}
		if blobs { // which are the same or not is all that is asked
			s.Blobs = &polygon.BlobSpec{FourConnected: foundBlobs(m.GetBlobs()) == found}
		}
		return s
	}
	var moved *kernels.InvalidError
	if own := settings(r.reductions); errors.As(set.CheckAsked(settings(asked), own), &moved) {
		what := "colours by its own matrix, and flags ask for another one, or none: ask for the same by --color-matrix"
		switch at := moved.Violations[0].Path.String(); {
		case strings.Contains(at, "blobs"):
			what = fmt.Sprintf("its own blobs (%s), and flags ask for others (%s): ask for the same", found,
				foundBlobs(asked.GetBlobs()))
		case strings.Contains(at, "cooccurrence"):
			what = fmt.Sprintf("textures of %d levels, and flags ask for %s: ask for the same by --texture and "+
				"--texture-levels", cmp.Or(own.Cooccurrence.Levels, polygon.DefaultLevels), moved.Violations[0].Value)
		}
		return bad(r.name, "its limits are about %s, or leave the flags about numbers out", what)
	}
	return nil
}

// foundBlobs says which blobs are found, as opposed to what is told of them.
func foundBlobs(b *polyscanv1.BlobSpec) string {
	if b == nil {
		return ""
	}
	b = proto.CloneOf(b)
	b.MaxBlobs, b.Order, b.Contours = 0, 0, false
	return reductions.FormatBlobs(b)
}

// inspection is the target as the server takes it.
func (t *target) inspection(r *polyscanv1.Reductions) *polyscanv1.Inspection {
	var in *polyscanv1.Inspection
	if t.recipe != nil {
		in = clients.UseRecipe(t.recipe.GetName(), t.recipe.GetVersion())
	} else {
		in = &polyscanv1.Inspection{Regions: &polyscanv1.Inspection_RegionSet{RegionSet: t.regions.set()},
			Frames: t.regions.frames(r), FlatField: cli.FlatField(t.regions.file)}
	}
	in.Reductions, in.Method = r, t.method
	return in
}
