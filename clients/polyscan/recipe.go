package main

// polyscan recipe: regions and limits that a server keeps under a name.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type recipeCmd struct {
	Put    recipePutCmd    `cmd:"" help:"Store a new version of a recipe."`
	Get    recipeGetCmd    `cmd:"" help:"Print a recipe as a regions file."`
	List   recipeListCmd   `cmd:"" help:"List recipes."`
	Delete recipeDeleteCmd `cmd:"" help:"Delete a version of a recipe, or all of them."`
}

func (c *recipeCmd) Help() string {
	return `
A recipe is a set of regions with limits and the numbers to compute, kept by a server under a name. Each put makes a
new version, and versions never change.

Examples:

    polyscan recipe put board --regions testdata/board.regions.json --addr inspector:7465
    polyscan reduce testdata/board.png --recipe board --addr inspector:7465
    polyscan recipe list --recipes ./recipes
`
}

// recipeFlags say where the recipes are.
type recipeFlags struct {
	// Folder in which the server inside the process keeps recipes, without --addr.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"server" without:"addr"`
	serverFlags
}

var errNoRecipes = usage("recipes are on a server: say --addr ADDR, or --recipes DIR for a folder of this machine")

func (f *recipeFlags) connect(e *env) (*connection, error) {
	if f.Addr == "" && f.Recipes == "" {
		return nil, errNoRecipes
	}
	return connect(e, &f.serverFlags, &deviceFlags{Device: "auto"}, f.Recipes)
}

// with runs a function with a connection.
func (f *recipeFlags) with(e *env, fn func(*connection) error) error {
	c, err := f.connect(e)
	if err != nil {
		return err
	}
	err = fn(c)
	if cerr := c.close(); err == nil {
		err = cerr
	}
	return err
}

type recipePutCmd struct {
	// Name of the recipe; a recipe file has its own.
	Name string `arg:"" optional:""`
	// What it is for.
	Description string `placeholder:"TEXT"`
	// Store only if the latest version is N; 0: if the name is new.
	Expect *uint64 `placeholder:"N"`
	// Regions with limits: polyscan's own JSON (an array, or what get prints), LabelMe, COCO, GeoJSON, SVG or PNG
	// masks;
	// - is standard input.
	Regions string `short:"r" placeholder:"FILE" predictor:"file"`
	// Fill rule of regions that don't say: nonzero or evenodd.
	Fill string `enum:"nonzero,evenodd" default:"nonzero" needs:"regions"`
	// Which image of a COCO file: its file name or id.
	Image string `placeholder:"NAME" needs:"regions"`
	// Make an error of what is only a warning, such as a key that looks misspelt.
	Strict bool
	// Add a limit to the regions of this name, such as 'pad*: mean in [90, 140]'; * and ? stand for any letters.
	Limit []string `sep:"none" placeholder:"NAME: LIMIT"`
	// Add a region that is made of others, or of circles and rectangles: 'rim: band of "U7" inwards 4 px'.
	Shape []string `sep:"none" placeholder:"NAME: SHAPE"`
	// Millimetres per pixel, along x and y, and the place in pixels that is (0, 0): 0.05, or 0.05,0.04@12,40.
	Scale string `placeholder:"X[,Y][@LEFT,TOP]"`
	reductionFlags
	// A frame that limits and --correlate speak of, and the name that the server keeps it by, as frames put printed it.
	Golden []string `placeholder:"NAME=RESIDENT" sep:"none" group:"numbers"`
	flatFlags
	recipeFlags
}

func (c *recipePutCmd) Help() string {
	return `
Examples:

    polyscan recipe put board --regions board.regions.json --stats basic --percentiles 1,50,99 --addr inspector:7465
    polyscan recipe get board --addr line1:7465 | polyscan recipe put --regions - --addr line2:7465
`
}

func (c *recipePutCmd) Run(e *env) error {
	o := regionFlags{Regions: c.Regions, Fill: c.Fill, Image: c.Image, Strict: c.Strict, Limit: c.Limit, Shape: c.Shape,
		Scale: c.Scale}
	if c.Regions == "" && len(c.Shape) == 0 {
		return usage("--regions FILE or --shape 'NAME: SHAPE' is missing")
	}
	rs, err := o.load(e, "", true)
	if err != nil {
		return err
	}
	r := &polyscanv1.Recipe{Name: c.Name, Description: c.Description, RegionSet: rs.set()}
	if r.Name == "" {
		r.Name = rs.file.Name
	}
	if r.Name == "" {
		return usage("the name of the recipe is missing, and %s holds none", rs.name)
	}
	if r.Description == "" {
		r.Description = rs.file.Description
	}
	if r.FlatField, err = c.field(e, rs); err != nil {
		return err
	}
	r.Frames = rs.file.Frames
	given := map[string]bool{}
	for _, text := range c.Golden {
		name, resident, ok := strings.Cut(text, "=")
		if !ok || name == "" || resident == "" {
			return usage("--golden %s: want NAME=RESIDENT", cli.Printable(text))
		}
		if given[name] {
			return usage("--golden %s: each frame needs a name of its own", cli.Printable(text))
		}
		if own, ok := r.Frames[name]; ok && own != resident {
			if err := rs.warn(e, "--golden %s takes the place of the file's own frame, %s", text, own); err != nil {
				return err
			}
		}
		if r.Frames == nil {
			r.Frames = map[string]string{}
		}
		r.Frames[name], given[name] = resident, true
	}
	if c.reductionFlags.set() {
		if r.Reductions, err = c.reductionFlags.message(nil); err != nil {
			return err
		}
		if err := rs.checkAsked(r.Reductions); err != nil {
			return err
		}
	} else {
		r.Reductions, rs.asked = rs.reductions, true
	}
	if err := rs.checkKeys(); err != nil {
		return err
	}
	if err := rs.checkLimits(e); err != nil {
		return err
	}
	noVerdict := "no region has limits: the recipe gives no verdict"
	if rs.file.Locate != nil {
		noVerdict = "no region has limits: a part that is not found is FAIL, and one that is found has no verdict"
	}
	if c.Strict && !rs.hasLimits() {
		return rs.warn(e, "%s", noVerdict)
	}
	if c.Addr == "" && c.Recipes != "" {
		if err := os.MkdirAll(c.Recipes, 0o777); err != nil {
			return bad(c.Recipes, "%v", reason(err))
		}
	}
	return c.with(e, func(conn *connection) error {
		if err := c.checkFrames(e, conn, rs, r.Frames); err != nil {
			return err
		}
		stored, err := conn.PutRecipe(conn.ctx, r, c.Expect)
		if err != nil {
			return conn.fail(err, "", rs)
		}
		if !rs.hasLimits() {
			_ = rs.warn(e, "%s", noVerdict) // which is an error above
		}
		_, err = fmt.Fprintf(e.stdout, "%s@%d: %s\n", stored.GetName(), stored.GetVersion(),
			plural(len(rs.file.Regions), "region", "regions"))
		return err
	})
}

// checkFrames warns of frames of a recipe that the server doesn't keep. What a folder's server keeps nobody knows here.
func (c *recipePutCmd) checkFrames(e *env, conn *connection, rs *regions, frames map[string]string) error {
	if c.Addr == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(frames)) {
		_, err := conn.GetFrame(conn.ctx, frames[name], false)
		if code := status.Code(err); code != codes.NotFound && code != codes.InvalidArgument {
			continue // other errors are those of the recipe, too
		}
		if err := rs.warn(e, "frame %q: %q is no resident frame of the server: the recipe judges nothing until there is one",
			name, frames[name]); err != nil {
			return err
		}
	}
	return nil
}

type recipeGetCmd struct {
	// NAME (the latest version) or NAME@VERSION.
	Recipe string `arg:""`
	// File to write; standard output by default.
	Output string `short:"o" default:"-" placeholder:"FILE" predictor:"file"`
	recipeFlags
}

func (c *recipeGetCmd) Help() string {
	return `
Prints JSON that --regions and recipe put read.

Examples:

    polyscan recipe get board@2 --addr inspector:7465 -o board.json
`
}

func (c *recipeGetCmd) Run(e *env) error {
	ref, err := clients.ParseRecipeRef(c.Recipe)
	if err != nil {
		return usage("%v", err)
	}
	if err := checkOutputs(nil, output{"--output", c.Output, ".json"}); err != nil {
		return err
	}
	return c.with(e, func(conn *connection) error {
		r, err := conn.GetRecipe(conn.ctx, ref.GetName(), ref.GetVersion())
		if err != nil {
			return conn.fail(err, "", nil)
		}
		text, err := recipeJSON(r)
		if err != nil {
			return err
		}
		return writeText(e, c.Output, text)
	})
}

// writeText writes to a file, or to standard output for "-".
func writeText(e *env, name string, text []byte) error {
	if name == "-" {
		_, err := e.stdout.Write(text)
		return err
	}
	return writeFile(name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

type recipeListCmd struct {
	// Only names that start with it.
	Prefix string `arg:"" optional:""`
	// All versions instead of the latest of each name.
	All bool
	// Print a JSON array.
	JSON bool `name:"json"`
	recipeFlags
}

func (c *recipeListCmd) Help() string {
	return `
Examples:

    polyscan recipe list --addr inspector:7465
    polyscan recipe list board --all --json --addr inspector:7465
`
}

// recipeSummaryReport is an element of what list --json prints.
type recipeSummaryReport struct {
	Name        string `json:"name"`
	Version     uint64 `json:"version"`
	Description string `json:"description"`
	Regions     uint32 `json:"regions"`
	Vertices    uint64 `json:"vertices"`
	CreatedAt   string `json:"created_at"`
	Tenant      string `json:"tenant"`
}

func (c *recipeListCmd) Run(e *env) error {
	return c.with(e, func(conn *connection) error {
		all := []recipeSummaryReport{}
		t := &table{columns: []column{{title: "RECIPE"}, {title: "VERSION", right: true},
			{title: "REGIONS", right: true},
			{title: "VERTICES", right: true}, {title: "CREATED"}, {title: "TENANT"}, {title: "DESCRIPTION"}}}
		for r, err := range conn.Recipes(conn.ctx, c.Prefix, c.All) {
			if err != nil {
				return conn.fail(err, "", nil)
			}
			at := r.GetCreatedAt().AsTime()
			all = append(all, recipeSummaryReport{r.GetName(), r.GetVersion(), r.GetDescription(), r.GetRegionCount(),
				r.GetVertexCount(),
				at.UTC().Format(time.RFC3339Nano), r.GetTenant()})
			t.add(cell{text: r.GetName()}, cell{text: strconv.FormatUint(r.GetVersion(), 10)},
				cell{text: strconv.Itoa(int(r.GetRegionCount()))},
				cell{text: strconv.FormatUint(r.GetVertexCount(), 10)},
				cell{text: at.Local().Format("2006-01-02 15:04:05")},
				cell{text: e.fit(cli.Printable(r.GetTenant()), 30)},
				cell{text: e.rest(cli.Printable(r.GetDescription()), 60)})
		}
		t.dropEmpty("TENANT")
		if c.JSON {
			return writeJSON(e.stdout, all)
		}
		if len(all) == 0 && c.Prefix != "" {
			names, err := conn.recipeNames()
			if err != nil {
				return conn.fail(err, "", nil)
			}
			return usage("PREFIX %s: no recipe is called so%s", cli.Printable(c.Prefix), meantOf(c.Prefix, names))
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(e.stdout, "no recipes")
			return err
		}
		return t.write(e, e.stdout)
	})
}

type recipeDeleteCmd struct {
	// NAME@VERSION, or NAME with --all.
	Recipe string `arg:""`
	// Delete every version.
	All bool
	recipeFlags
}

func (c *recipeDeleteCmd) Help() string {
	return `
Examples:

    polyscan recipe delete board@1 --addr inspector:7465
    polyscan recipe delete board --all --addr inspector:7465
`
}

func (c *recipeDeleteCmd) Run(e *env) error {
	ref, err := clients.ParseRecipeRef(c.Recipe)
	switch {
	case err != nil:
		return usage("%v", err)
	case ref.GetVersion() == 0 && !c.All:
		return usage("recipe %s: which version? Say %s@VERSION, or --all for every one of them", ref.GetName(),
			ref.GetName())
	case ref.GetVersion() != 0 && c.All:
		return usage("recipe %s: --all deletes every version; leave the version out", c.Recipe)
	}
	return c.with(e, func(conn *connection) error {
		n, err := conn.DeleteRecipe(conn.ctx, ref.GetName(), ref.GetVersion())
		if err != nil {
			return conn.fail(err, "", nil)
		}
		_, err = fmt.Fprintf(e.stdout, "%s: deleted %s\n", c.Recipe, plural(n, "version", "versions"))
		return err
	})
}

// recipeJSON writes a recipe as a regions file.
func recipeJSON(r *polyscanv1.Recipe) ([]byte, error) {
	f := fromRecipe(r).file
	fields := []jsonField{
		{"name", r.GetName()},
		{"version", r.GetVersion()},
		{"created_at", r.GetCreatedAt().AsTime().UTC().Format(time.RFC3339Nano)},
		{"description", r.GetDescription()},
		{"reductions", reductions.Format(r.GetReductions())},
	}
	if len(r.GetFrames()) > 0 {
		fields = append(fields, jsonField{"frames", r.GetFrames()})
	}
	fields = append(fields, flatFieldField(f)...)
	return regionsJSON(slices.Concat(fields, scaleField(f), locateField(f), drawnOnField(f)), f.Regions)
}

type jsonField struct {
	key   string
	value any
}

// regionsJSON writes a regions file: fields, then one region a line.
func regionsJSON(fields []jsonField, regions []regionfile.Region) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	value := func(v any) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the encoder ends with a newline
		return nil
	}
	b.WriteString("{\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "%q: ", f.key)
		if err := value(f.value); err != nil {
			return nil, err
		}
		b.WriteString(",\n")
	}
	b.WriteString("\"regions\": [\n")
	for i, g := range regions {
		if err := value(g); err != nil {
			return nil, err
		}
		if i < len(regions)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n}\n")
	return b.Bytes(), nil
}
