package main

// The command line: its grammar, its help, and how errors leave it.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server/daemon"
	"github.com/polyscan/polyscan/server/drivers"
)

// sources are the files whose comments are the help of flags.
//
//go:embed app.go bench.go blobs.go completion.go connect.go correlate.go device.go diffuse.go extract.go fill.go
//go:embed flat.go frame.go frames.go help.go history.go kept.go locate.go lowpoly.go mask.go pose.go recipe.go
//go:embed reduce.go reductions.go regions.go stream.go teach.go triangulate.go try.go version.go watch.go
var sources embed.FS

// app is the grammar; each command is in a file of its name.
type app struct {
	Reduce      reduceCmd      `cmd:"" help:"Measure and judge the regions of one frame."`
	Blobs       blobsCmd       `cmd:"" help:"List what is connected, and bright or dark, in the regions of one frame."`
	Locate      locateCmd      `cmd:"" help:"Find where the part lies in one frame." idle:"limit: it judges nothing"`
	Stream      streamCmd      `cmd:"" help:"Do the same for all frames of a folder, over one stream."`
	Mask        maskCmd        `cmd:"" help:"Draw the pixels of regions as an image." idle:"limit: it judges nothing"`
	Regions     regionsCmd     `cmd:"" help:"Print a regions file of any format as polyscan's own."`
	Frames      framesCmd      `cmd:"" help:"Keep frames on a server's device."`
	Recipe      recipeCmd      `cmd:"" help:"Keep regions and limits on a server, under a name."`
	Teach       teachCmd       `cmd:"" help:"Learn limits from frames of good parts."`
	Try         tryCmd         `cmd:"" help:"Judge frames by a recipe before it is used."`
	Flat        flatCmd        `cmd:"" help:"Learn what makes an even scene even, from frames of it."`
	Lowpoly     lowpolyCmd     `cmd:"" help:"Turn a picture or a video into triangles."`
	Diffuse     diffuseCmd     `cmd:"" help:"Make a picture of curves, or of some of its pixels."`
	Extract     extractCmd     `cmd:"" help:"Turn a picture into curves and pixels, for diffuse."`
	Fill        fillCmd        `cmd:"" help:"Fill holes of a picture from their borders." idle:"limit: it judges nothing"`
	Background  backgroundCmd  `cmd:"" help:"Fill regions from their surroundings, and show the difference." idle:"limit: it judges nothing"`
	Triangulate triangulateCmd `cmd:"" help:"Triangulate points, by Delaunay's rule."`
	Watch       watchCmd       `cmd:"" help:"Show what a server does, live."`
	History     historyCmd     `cmd:"" help:"Ask a server what parts came to."`
	Serve       serveCmd       `cmd:"" help:"Run a server."`
	Device      deviceCmd      `cmd:"" help:"Show what a server computes on, and its limits."`
	Bench       benchCmd       `cmd:"" help:"Time the device and the server."`
	Help        helpCmd        `cmd:"" help:"Explain a command."`
	Completion  completionCmd  `cmd:"" help:"Print the code that completes commands in a shell."`
	Version     versionCmd     `cmd:"" help:"Print the version of this build."`

	// Print the version of this build.
	VersionFlag command.Version `name:"version"`
}

const description = `
Reduces frames over polygons: exact statistics of the pixels inside each region, and a verdict where regions have
limits.

Examples:

    polyscan reduce testdata/board.png --regions testdata/board.regions.json --overlay overlay.png
    polyscan stream testdata/conveyor --regions testdata/conveyor/regions.json
    polyscan COMMAND --help
`

// run is the whole command. It returns the exit code and leaves nothing running.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Nothing to do is an error of usage, and the best message for it is the help. Shells that complete say what by
	// COMP_LINE.
	if len(args) == 0 && os.Getenv("COMP_LINE") == "" {
		run(ctx, []string{"--help"}, stdin, stderr, stderr)
		return exitUsage
	}
	e := newEnv(ctx, stdin, stdout, stderr)
	c := cli.Command{Name: "polyscan", Description: description, Devices: drivers.Names(), Sources: sources,
		Usage: exitUsage}
	return c.Run(&app{}, args, stdout, stderr,
		func(parser *kong.Kong) {
			kongcompletion.Register(parser, kongcompletion.WithPredictors(predictors()))
		},
		func(k *kong.Context, out io.Writer) int {
			e.stdout = out
			return e.run(k)
		},
		append(daemon.Options("serve", sources, cli.Sources),
			kong.Vars{"mask_methods": "auto,naive,tiled,edge-filtered,tiled-edge-filtered,row-spans",
				"solvers": "multigrid,naive,pyramid-cautious,pyramid-greedy,variable-stencil"},
			kong.ExplicitGroups([]kong.Group{
				{Key: "regions", Title: "Regions:"},
				{Key: "frame", Title: "Frame:"},
				{Key: "numbers", Title: "Numbers:"},
				{Key: "triangles", Title: "Triangles:"},
				{Key: "diffusion", Title: "Diffusion:"},
				{Key: "watch", Title: "What is shown:"},
				{Key: "parts", Title: "Which parts:"},
				{Key: "output", Title: "Output:"},
				{Key: "device", Title: "Device (without --addr):"},
				{Key: "server", Title: "Server:"},
				{Key: "listen", Title: "Listening:"},
				{Key: "limits", Title: "Limits:"},
			}))...)
}

// run runs the command that was parsed.
func (e *env) run(k *kong.Context) int {
	var err error
	if device := wantedDevice(k); device != "" {
		err = drivers.Prepare(device)
	}
	if err == nil {
		err = k.Run(e)
	}
	code := exitCode(err)
	switch {
	case err == nil, errors.Is(err, errRejected), errors.Is(err, errSaid):
	case code == exitCanceled:
		fmt.Fprintln(e.stderr, "polyscan: interrupted")
	default:
		fmt.Fprintf(e.stderr, "polyscan: %s\n", cli.OneLine(err.Error()))
	}
	return code
}

// predictors complete the values of flags and arguments that carry their names.
func predictors() map[string]complete.Predictor {
	names := make([]string, 0, len(reductions.Statistics)+2)
	for _, s := range reductions.Statistics {
		names = append(names, s.Name)
	}
	pixel := make([]string, 0, len(formats))
	for _, f := range formats {
		pixel = append(pixel, f.name)
	}
	return map[string]complete.Predictor{
		"file":        complete.PredictFiles("*"),
		"dir":         complete.PredictDirs("*"),
		"colors":      complete.PredictSet("gray", "gray709", "hsv", "lab"),
		"derivatives": complete.PredictSet("gradient", "laplacian"),
		"stats":       complete.PredictSet(append(names, "basic", "all")...),
		"format":      complete.PredictSet(pixel...),
	}
}
