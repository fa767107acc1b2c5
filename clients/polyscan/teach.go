package main

// polyscan teach: limits from frames of good parts.

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/internal/digits"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type teachCmd struct {
	// Frames of good parts: files, or folders of them.
	Frames []string `arg:"" optional:"" predictor:"file"`
	// Frames of bad parts: files, or folders. Nothing is learned from them; the table says which limits catch them.
	Bad []string `sep:"none" placeholder:"FRAMES" predictor:"file" group:"frame"`
	sampleFlags

	// What limits are to be about, as limits spell it: mean, p99, r.max, "count of pixels below 40". May be given again.
	// The default is mean, stddev, min and max.
	Quantity []string `sep:"none" placeholder:"QUANTITY" group:"numbers"`
	// How far limits are from good frames: so many standard deviations (4sigma), or a quantile on either side and a share
	// of the distance between the two (1%+20%; 0%+20% starts from the farthest good frames).
	Margin marginSpec `default:"4sigma" placeholder:"MARGIN" group:"numbers"`

	// The recipe to write; - is standard output, and then there is no table.
	Output string `short:"o" placeholder:"FILE" predictor:"file" group:"output"`
	// Print the server's answer as a JSON object, as the schemas have it.
	JSON bool `group:"output" name:"json"`
	deviceFlags
	serverFlags
}

func (c *teachCmd) Help() string {
	return `
Learns, region by region, what limits frames of good parts keep, and prints them beside what those frames have. It
writes a regions file with the limits: look at it, edit it, try it (polyscan try), and put it on a server (polyscan
recipe put). Nothing is used by itself. Of the history (--kept), parts that passed are taken for good ones. Limits
that the regions have stay, except those about what is learned.

Examples:

    polyscan teach good/ --bad bad/ --regions zones.json -o taught.json
    polyscan teach good/ -r zones.json --quantity mean --quantity 'count of pixels below 40' --margin 0%+20%
    polyscan teach good/ --recipe board@3 --addr inspector:7465 -o board.json
    polyscan teach --kept camera-3 --last 200 --recipe board --addr inspector:7465 -o board.json
`
}

// marginSpec is the text of --margin.
type marginSpec struct{ *polyscanv1.Margin }

func (m *marginSpec) UnmarshalText(text []byte) error {
	const want = "want so many standard deviations, such as 4sigma, or a quantile and a share, such as 1%%+20%%"
	s := strings.ReplaceAll(string(text), " ", "")
	number := func(s, unit string) (float64, bool) {
		s, ok := strings.CutSuffix(s, unit)
		v, err := digits.Float(s)
		return v, ok && err == nil
	}
	if k, ok := number(s, "sigma"); ok {
		if !(k > 0 && k <= 100) {
			return fmt.Errorf("%s: must be above 0, and 100 at most", text)
		}
		m.Margin = &polyscanv1.Margin{Kind: &polyscanv1.Margin_Sigma{Sigma: k}}
		return nil
	}
	first, second, both := strings.Cut(s, "+")
	q, ok := number(first, "%")
	share, okay := 0.0, true
	if both {
		share, okay = number(second, "%")
	}
	switch {
	case !ok || !okay:
		return fmt.Errorf("%q: "+want, text)
	case !(q >= 0 && q < 50):
		return fmt.Errorf("%s: the quantile must be from 0 to below 50 %%", text)
	case !(share >= 0 && share <= 1000):
		return fmt.Errorf("%s: the share must be from 0 to 1000 %%", text)
	}
	m.Margin = &polyscanv1.Margin{Kind: &polyscanv1.Margin_Quantile{
		Quantile: &polyscanv1.QuantileMargin{Percent: q, SharePercent: share}}}
	return nil
}

// labelled is a file with what is known of it.
type labelled struct {
	file  string
	label polyscanv1.FrameLabel
}

// list adds the files that names stand for: themselves, or those in them.
func list(e *env, files []labelled, names []string, label polyscanv1.FrameLabel, raw bool) ([]labelled, error) {
	for _, name := range names {
		if st, err := os.Stat(name); err != nil || !st.IsDir() {
			files = append(files, labelled{name, label})
			continue
		}
		inside, err := listFrames(e, name, raw)
		if err != nil {
			return nil, err
		}
		for _, f := range inside {
			files = append(files, labelled{filepath.Join(name, f), label})
		}
	}
	return files, nil
}

// checkOnce refuses a file or frame that is given twice, such as alone and in its folder, or as good and bad: it would
// count twice.
func checkOnce(files []labelled, resident []string) error {
	first := map[string]string{}
	for _, l := range files {
		at := l.file
		if whole, err := filepath.Abs(at); at != "-" && err == nil {
			at = whole
			if target, err := filepath.EvalSymlinks(whole); err == nil {
				at = target
			}
		}
		if other, again := first[at]; again {
			return usage("%s and %s are one file, and would count twice", cli.Printable(other),
				cli.Printable(l.file))
		}
		first[at] = l.file
	}
	for i, name := range resident {
		if slices.Contains(resident[:i], name) {
			return usage("--frame %s is given twice, and would count so", cli.Printable(name))
		}
	}
	return nil
}

// read reads files one after the other, behind frames that the server has.
func (o *frameFlags) read(e *env, resident []string, files []labelled) iter.Seq2[clients.Labeled, error] {
	return func(yield func(clients.Labeled, error) bool) {
		for _, name := range resident {
			if !yield(clients.Labeled{Frame: clients.Resident(name)}, nil) {
				return
			}
		}
		for _, l := range files {
			f, err := o.load(e, l.file)
			if err != nil {
				yield(clients.Labeled{}, err)
				return
			}
			m := f.message()
			m.FrameId = cut(inputName(l.file), 256)
			if !yield(clients.Labeled{Frame: m, Label: l.label}, nil) {
				return
			}
		}
	}
}

// checkResident refuses names of frames where no server is.
func checkResident(names []string, s *serverFlags) error {
	if len(names) > 0 && s.Addr == "" {
		return usage("--frame %s: frames are kept by a server: say --addr ADDR", cli.Printable(names[0]))
	}
	return nil
}

func (c *teachCmd) Run(e *env) (err error) {
	if err := checkOutputs(inputs{c.Regions}, output{"--output", c.Output, ".json"}); err != nil {
		return err
	}
	if len(c.Frames)+len(c.Resident) == 0 && c.Kept == "" {
		return usage("FRAMES of good parts are missing")
	}
	if err := c.sampleFlags.check(&c.serverFlags); err != nil {
		return err
	}
	files, err := list(e, nil, c.Frames, polyscanv1.FrameLabel_FRAME_LABEL_GOOD, c.Raw.set())
	if err != nil {
		return err
	}
	if files, err = list(e, files, c.Bad, polyscanv1.FrameLabel_FRAME_LABEL_BAD, c.Raw.set()); err != nil {
		return err
	}
	if err := checkOnce(files, c.Resident); err != nil {
		return err
	}
	first := ""
	if len(c.Frames) > 0 {
		first = c.Frames[0]
	}
	t, err := c.target(e, c.Recipe, first, true)
	if err != nil {
		return err
	}
	open := &polyscanv1.TeachOpen{Quantities: c.Quantity, Margin: c.Margin.Margin}
	if t.recipe != nil {
		open.Regions = &polyscanv1.TeachOpen_Recipe{Recipe: t.recipe}
	} else {
		if err := t.regions.checkKeys(); err != nil { // what is written has neither the key nor the warning
			return err
		}
		draft, err := c.draft(e, t.regions)
		if err != nil {
			return err
		}
		open.Regions = &polyscanv1.TeachOpen_Draft{Draft: draft}
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	kept, err := c.find(e, conn, "learned from", true)
	if err != nil {
		return err
	}
	res, err := conn.Teach(conn.ctx, open, c.keptFlags.read(conn, kept, c.Bits, c.frameFlags.read(e, c.Resident, files)))
	if err != nil {
		return conn.fail(err, "", t.regions)
	}
	if t.regions != nil { // which the server doesn't see
		f := t.regions.file
		res.Recipe.Name, res.Recipe.Description = f.Name, f.Description
	}
	for _, w := range res.GetWarnings() {
		e.warn("%s", w)
	}
	switch {
	case c.JSON:
		err = writeProto(e, res)
	case c.Output != "-":
		err = c.table(e, res)
	}
	if err != nil || c.Output == "" {
		return err
	}
	fields := []jsonField{{"name", res.GetRecipe().GetName()}, {"description", res.GetRecipe().GetDescription()}}
	if r := reductions.Format(res.GetRecipe().GetReductions()); len(r) > 0 {
		fields = append(fields, jsonField{"reductions", r})
	}
	if frames := res.GetRecipe().GetFrames(); len(frames) > 0 {
		fields = append(fields, jsonField{"frames", frames})
	}
	learned := fromRecipe(res.GetRecipe()).file
	fields = slices.Concat(fields, scaleField(learned), locateField(learned), drawnOnField(learned),
		flatFieldField(learned))
	text, err := regionsJSON(fields, learned.Regions)
	if err != nil {
		return err
	}
	return writeText(e, c.Output, text)
}

// table prints what was learned.
func (c *teachCmd) table(e *env, res *polyscanv1.TeachResponse) error {
	t := &table{columns: []column{{title: "REGION"}, {title: "GOOD FRAMES HAVE"}, {title: "LIMIT"},
		{title: "BAD CAUGHT", right: true}}}
	caught := false
	for _, l := range res.GetLimits() {
		least, greatest := l.GetLeast(), l.GetGreatest()
		have := short(&least) + " to " + short(&greatest)
		if least == greatest {
			have = short(&least)
		}
		limit, style := l.GetExpression(), cli.Plain
		if limit == "" {
			limit, style = l.GetQuantity()+" (no limit could fail)", cli.Dim
		}
		bad := ""
		if l.GetBadRejected() > 0 {
			bad, caught = strconv.Itoa(int(l.GetBadRejected())), true
		}
		t.add(cell{text: e.fit(cli.Printable(l.GetRegionName()), 20)}, cell{text: have},
			cell{e.rest(limit, 36), style}, cell{bad, cli.Red})
	}
	if !caught {
		t.dropEmpty("BAD CAUGHT")
	}
	if err := t.write(e, e.stdout); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "%s: %s\n", plural(len(res.GetFrames()), "frame", "frames"), tallyText(res.GetTally()))
	return err
}

// tallyText says how frames came out.
func tallyText(t *polyscanv1.Tally) string {
	var parts []string
	add := func(n, of uint32, what string) {
		if of > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", n, of, what))
		}
	}
	add(t.GetGoodPassed(), t.GetGoodPassed()+t.GetGoodFailed(), "good pass")
	add(t.GetBadFailed(), t.GetBadPassed()+t.GetBadFailed(), "bad fail")
	add(t.GetOtherPassed(), t.GetOtherPassed()+t.GetOtherFailed(), "pass")
	return strings.Join(parts, ", ")
}
