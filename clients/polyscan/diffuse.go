package main

// polyscan diffuse: pictures of which some pixels, or curves, are given.

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients/curvefile"
	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/lowpoly"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// solveFlags say how to solve.
type solveFlags struct {
	// Method of the solver. All but multigrid are for comparison, and slow: naive, pyramid-cautious,
	// pyramid-greedy, variable-stencil.
	Solver string `enum:"${solvers}" default:"multigrid" placeholder:"METHOD" group:"diffusion"`
	// Largest estimated error at which the solver stops, in levels of 8 bits.
	Accuracy float64 `default:"0.25" placeholder:"LEVELS" group:"diffusion" without:"threshold"`
	// Stop as Warren's library does, whatever the error, which is not known then: when the sum of what a sweep changes
	// falls by no more than so many levels from one sweep to the next, or than his table 6.1 has for the method, with
	// "paper". For naive (0.2), pyramid-cautious (1) and pyramid-greedy (50), on the CPU.
	Threshold string `placeholder:"paper|LEVELS" group:"diffusion"`
	// With --threshold, measure the error all the same.
	MeasureError bool `group:"diffusion" needs:"threshold"`
	// Largest number of cycles, whatever the error.
	MaxCycles int `default:"500" placeholder:"N" group:"diffusion"`

	// The PNG to write; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// Run as batch work, after everything more urgent on the server.
	Batch bool `group:"server" needs:"addr"`
	deviceFlags
	serverFlags
}

// What a pixel takes of the device's memory with blur, and a little more: without blocked edges, and with them, where
// CUDA's set-up is larger than the CPU's.
const (
	solveMemory   = 150
	barrierMemory = 720
)

// check looks at the flags alone.
func (c *solveFlags) check(read inputs) error {
	if !(c.Accuracy > 0 && c.Accuracy <= 255) {
		return usage("--accuracy %v: must be more than 0, and at most 255", c.Accuracy)
	}
	if _, err := thresholdOf(c.Threshold, c.Solver); err != nil {
		return err
	}
	if c.MaxCycles < 1 || c.MaxCycles > 100000 {
		return usage("--max-cycles %d: must be 1 to 100000", c.MaxCycles)
	}
	return checkOutputs(read, output{"--output", c.Output, ".png"})
}

// room makes a server inside the process reserve enough for an image, and take a drawing of any size.
func (c *solveFlags) room(width, height int, drawing *polyscanv1.Drawing) {
	pixel := int64(solveMemory)
	if slices.ContainsFunc(drawing.GetCurves(), (*polyscanv1.Curve).GetBarrier) {
		pixel = barrierMemory
	}
	if need := int64(width) * int64(height) * pixel; need > 1<<30 {
		c.memory = need
	}
	c.points = lowpoly.MaxPoints
}

// paperThreshold is a --threshold that stands for that of the paper.
const paperThreshold = "paper"

// thresholdOf is the threshold of a method in levels: diffusion.WarrenThreshold for that of the paper, and 0 for none.
func thresholdOf(s, solver string) (float32, error) {
	if s == "" {
		return 0, nil
	}
	if m := solvers[solver]; !m.Thresholds() {
		return 0, usage("--threshold %s: is for naive, pyramid-cautious and pyramid-greedy, not for %s", s, solver)
	}
	if s == paperThreshold {
		return diffusion.WarrenThreshold, nil
	}
	v, err := digits.Float(s)
	if err != nil || !(v > 0) || v > math.MaxFloat32 {
		return 0, usage("--threshold %s: must be a number of levels above 0, or %s", s, paperThreshold)
	}
	return float32(v), nil
}

func (c *solveFlags) options() *polyscanv1.DiffusionOptions {
	method := strings.ToUpper(strings.ReplaceAll(c.Solver, "-", "_"))
	o := &polyscanv1.DiffusionOptions{
		Tolerance: float32(c.Accuracy), MaxCycles: uint32(c.MaxCycles), MeasureError: c.MeasureError,
		Method: polyscanv1.DiffusionMethod(polyscanv1.DiffusionMethod_value["DIFFUSION_METHOD_"+method]),
	}
	if v, _ := thresholdOf(c.Threshold, c.Solver); v != 0 { // which has been checked
		o.Threshold = proto.Float32(max(v, 0))
	}
	return o
}

func (c *solveFlags) workClass() polyscanv1.WorkClass {
	if c.Batch {
		return polyscanv1.WorkClass_WORK_CLASS_BATCH
	}
	return polyscanv1.WorkClass_WORK_CLASS_INTERACTIVE
}

func (c *solveFlags) request(f *polyscanv1.Frame) *polyscanv1.SolveRequest {
	return &polyscanv1.SolveRequest{WorkClass: c.workClass(), Options: c.options(),
		Encoding: polyscanv1.Encoding_ENCODING_PNG, Frame: f}
}

// solved is what responses say of a solution.
type solved interface {
	GetBackend() string
	GetCompute() *durationpb.Duration
	GetCycles() uint32
	GetConverged() bool
	GetEstimate() float32
	GetErrorUnknown() bool
	GetStopped() polyscanv1.DiffusionStop
	GetGlobalDifference() float64
}

// finish writes the PNG, and to report what is to say of it.
func (c *solveFlags) finish(e *env, report io.Writer, file []byte, what string, res solved) error {
	cycles := plural(int(res.GetCycles()), "cycle", "cycles")
	switch {
	case res.GetConverged():
	case c.Threshold != "":
		e.warn("%s: stopped after %s with a global difference of %.4g levels", c.Output, cycles,
			res.GetGlobalDifference())
	default:
		e.warn("%s: stopped after %s with an estimated error of %.2g levels", c.Output, cycles, res.GetEstimate())
	}
	if res.GetStopped() == polyscanv1.DiffusionStop_DIFFUSION_STOP_THRESHOLD {
		cycles += " to the threshold"
	}
	switch {
	case res.GetErrorUnknown():
		cycles += ", error not known"
	case c.MeasureError:
		cycles += fmt.Sprintf(", error at most %.2g levels", res.GetEstimate())
	}
	if c.Output == "-" {
		_, err := e.stdout.Write(file)
		return err
	}
	err := writeFile(c.Output, func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(report, "%s: %s, %s, in %s by %s\n", c.Output, what, cycles,
		pretty(res.GetCompute().AsDuration()), res.GetBackend())
	return err
}

type diffuseCmd struct {
	// The constraints: curves in JSON or XML, or a PNG or TIFF with transparency; - is standard input.
	Constraints string `arg:"" predictor:"file"`
	// Print how close the picture comes to this one of the same size: the ratio of peak signal to noise, and the
	// largest difference in levels. A picture of 16 bits is stretched, so that its darkest pixel is black and its
	// brightest white.
	Compare string `placeholder:"FILE" predictor:"file" group:"output"`
	// Write the pictures on the way to this one into a folder as well, which is made if need be, from coarse to
	// fine: 0001.png, 0002.png, and so on.
	Progress string `placeholder:"DIR" predictor:"dir" group:"output"`

	solveFlags
}

func (c *diffuseCmd) Help() string {
	return `
Makes a picture of constraints: some pixels are given, and each other one becomes the mean of its neighbours. Given
are the opaque pixels of an image (pixels that are partly transparent are not), or those along both sides of diffusion
curves, whose blur is then applied. The picture is within a fraction of a level of the exact solution, and rounded,
unless a --threshold is asked for.

With --progress there is a picture for each cycle of the solver, the last of which is that of --output. Cycles that
take less time than writing the picture of one before are left out.

A file of curves is polyscan's JSON, as docs/diffusion.md has it, or the XML of Orzan and others.

Examples:

    polyscan diffuse constraints.png -o picture.png
    polyscan diffuse zephyr.xml -o picture.png
    polyscan diffuse photo.json.gz -o again.png --compare photo.jpg
    polyscan diffuse constraints.png -o picture.png --solver pyramid-greedy --threshold paper
    polyscan diffuse constraints.png -o picture.png --progress cycles
`
}

func (c *diffuseCmd) Run(e *env) (err error) {
	if err := c.check(inputs{c.Constraints}); err != nil {
		return err
	}
	made, err := c.checkProgress()
	if err != nil {
		return err
	}
	if made {
		defer func() {
			if err != nil {
				_ = os.Remove(c.Progress) // which fails where pictures are in it already
			}
		}()
	}
	req, w, h, err := c.load(e)
	if err != nil {
		return err
	}
	var reference *diffusion.Planes
	if c.Compare != "" {
		if reference, err = c.reference(e, w, h); err != nil {
			return err
		}
	}
	c.room(w, h, req.GetDrawing())
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	working := e.busy(fmt.Sprintf("diffuse: %dx%d by %s", w, h, c.Solver))
	res, pictures, err := c.solve(conn, req, working)
	working.end()
	if err != nil {
		return conn.fail(err, c.Constraints, nil)
	}
	if req.GetDrawing() == nil && res.GetGivenPixels() == uint64(w)*uint64(h) { // as fill refuses what has no hole
		return bad(inputName(c.Constraints), "the picture is opaque: all pixels are given, and there is nothing to diffuse")
	}
	given := fmt.Sprintf("%s %% of %dx%d pixels given", percent(res.GetGivenPixels(), w*h), w, h)
	if void := res.GetVoidPixels(); void > 0 {
		given += fmt.Sprintf(", %s %% out of their reach", percent(void, w*h))
	}
	if reference != nil {
		close, err := closeness(res.GetPicture().GetData(), reference)
		if err != nil {
			return err
		}
		given += ", " + close
	}
	if c.Progress != "" {
		given += fmt.Sprintf(", %s in %s", plural(pictures, "picture", "pictures"), c.Progress)
	}
	return c.finish(e, e.stdout, res.GetPicture().GetData(), given, res)
}

// checkProgress looks whether files can be made in the folder of --progress, before anything is computed, and makes it
// where there is none.
func (c *diffuseCmd) checkProgress() (made bool, err error) {
	if c.Progress == "" {
		return false, nil
	}
	err = os.Mkdir(c.Progress, 0o777)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, bad(c.Progress, "%v", reason(err))
	}
	if st, err := os.Stat(c.Progress); err == nil && !st.IsDir() {
		return false, bad(c.Progress, "is no folder")
	}
	f, err := os.CreateTemp(c.Progress, ".polyscan-*")
	if err != nil {
		return false, bad(c.Progress, "no file can be made there: %v", reason(err))
	}
	f.Close()
	return false, os.Remove(f.Name())
}

// percent is a part of a whole: two digits, or those before the point.
func percent(n uint64, of int) string {
	p := 100 * float64(n) / float64(of)
	if p >= 10 {
		return fmt.Sprintf("%.0f", p)
	}
	return fmt.Sprintf("%.2g", p)
}

// solve returns the picture, and with --progress how many there were, having written them.
func (c *diffuseCmd) solve(
	conn *connection, req *polyscanv1.SolveRequest, working *busy,
) (res *polyscanv1.SolveResponse, pictures int, err error) {
	if c.Progress == "" {
		res, err = conn.Solve(conn.ctx, req)
		return res, 0, err
	}
	for p, err := range conn.SolveProgressively(conn.ctx, req) {
		if err != nil {
			return nil, pictures, err
		}
		pictures, res = pictures+1, p.GetResult()
		working.say("diffuse: %s in %s", plural(pictures, "picture", "pictures"), c.Progress)
		err = writeFile(filepath.Join(c.Progress, fmt.Sprintf("%04d.png", pictures)), func(w io.Writer) error {
			_, err := w.Write(res.GetPicture().GetData())
			return err
		})
		if err != nil {
			return nil, pictures, err
		}
	}
	return res, pictures, nil
}

// reference is the picture of --compare.
func (c *diffuseCmd) reference(e *env, w, h int) (*diffusion.Planes, error) {
	f, err := loadPicture(e, c.Compare)
	if err != nil {
		return nil, err
	}
	im, err := f.picture()
	if err != nil {
		return nil, err
	}
	if b := im.Bounds(); b.Dx() != w || b.Dy() != h {
		return nil, bad(c.Compare, "is %dx%d; the picture will be %dx%d", b.Dx(), b.Dy(), w, h)
	}
	return planesOf(im), nil
}

// closeness says how far a PNG is from a picture.
func closeness(file []byte, reference *diffusion.Planes) (string, error) {
	im, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return "", err
	}
	p := planesOf(im)
	worst := float32(0)
	for i, v := range p.Values {
		worst = max(worst, v-reference.Values[i], reference.Values[i]-v)
	}
	off := plural(int(math.Round(255*float64(worst))), "level", "levels")
	return fmt.Sprintf("%.2f dB, %s off at most", diffusion.PSNR(p.Values, reference.Values), off), nil
}

// load makes a request of curves or of a picture.
func (c *diffuseCmd) load(e *env) (req *polyscanv1.SolveRequest, w, h int, err error) {
	name := inputName(c.Constraints)
	data, err := readInput(e, c.Constraints, maxFile)
	if err != nil {
		return nil, 0, 0, err
	}
	if curvefile.Is(data) {
		d, err := curvefile.Parse(name, data, curvefile.Options{})
		if err != nil {
			return nil, 0, 0, &inputError{err.Error()}
		}
		req = c.request(nil)
		req.Drawing = d
		return req, int(d.Width), int(d.Height), nil
	}
	if len(data) > 0 && sniff(data) == "" {
		return nil, 0, 0, bad(name, "neither curves in JSON or XML nor a PNG, JPEG, TIFF or BMP image")
	}
	f, err := imageFiles().frame(name, data)
	if err != nil {
		return nil, 0, 0, err
	}
	if w, h, err = f.size(); err != nil {
		return nil, 0, 0, err
	}
	m := f.message()
	m.Layout = &polyscanv1.FrameLayout{PixelFormat: polyscanv1.PixelFormat_PIXEL_FORMAT_RGBA8}
	return c.request(m), w, h, nil
}
