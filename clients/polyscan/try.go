package main

// polyscan try: a recipe on frames, before it is used.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type tryCmd struct {
	// Frames to judge: files, or folders of them.
	Frames []string `arg:"" optional:"" predictor:"file"`
	// Frames of parts that are known to be good: a FAIL is a false call.
	Good []string `sep:"none" placeholder:"FRAMES" predictor:"file" group:"frame"`
	// Frames of parts that are known to be bad: a PASS is an escape.
	Bad []string `sep:"none" placeholder:"FRAMES" predictor:"file" group:"frame"`
	sampleFlags
	// A recipe on the server to compare with, such as the one in use.
	Beside string `placeholder:"NAME[@VERSION]" group:"regions"`

	// Exit with 1 if a good frame fails or a bad one passes.
	FailOnError bool `group:"output" needs:"good|bad"`
	// Print the server's answer as a JSON object, as the schemas have it.
	JSON bool `group:"output" name:"json"`
	deviceFlags
	serverFlags
}

func (c *tryCmd) Help() string {
	return `
Judges frames by regions with limits, or a recipe that isn't used yet, and prints those that fail and those that the
recipe of --beside judges in another way.

Examples:

    polyscan try --good good/ --bad bad/ --regions taught.json
    polyscan try --kept camera-3 -r board.json --beside board --addr inspector:7465

Exit codes: 0 done; 1 a good frame fails or a bad one passes and --fail-on-error was given; 2 wrong arguments or bad
input; 3 the server, or the way to it, failed; 130 interrupted.
`
}

func (c *tryCmd) Run(e *env) (err error) {
	if len(c.Frames)+len(c.Good)+len(c.Bad)+len(c.Resident) == 0 && c.Kept == "" {
		return usage("FRAMES are missing")
	}
	if err := c.sampleFlags.check(&c.serverFlags); err != nil {
		return err
	}
	var files []labelled
	for _, group := range []struct {
		names []string
		label polyscanv1.FrameLabel
	}{
		{c.Frames, polyscanv1.FrameLabel_FRAME_LABEL_UNSPECIFIED},
		{c.Good, polyscanv1.FrameLabel_FRAME_LABEL_GOOD}, {c.Bad, polyscanv1.FrameLabel_FRAME_LABEL_BAD},
	} {
		if files, err = list(e, files, group.names, group.label, c.Raw.set()); err != nil {
			return err
		}
	}
	if err := checkOnce(files, c.Resident); err != nil {
		return err
	}
	first := ""
	if len(files) > 0 {
		first = files[0].file
	}
	t, err := c.judged(e, c.Recipe, first, c.FailOnError)
	if err != nil {
		return err
	}
	if c.FailOnError && t.regions != nil {
		if err := t.regions.checkKeys(); err != nil {
			return err
		}
	}
	open := &polyscanv1.TryOpen{}
	if t.recipe != nil {
		open.Regions = &polyscanv1.TryOpen_Recipe{Recipe: t.recipe}
	} else {
		draft, err := c.draft(e, t.regions)
		if err != nil {
			return err
		}
		open.Regions = &polyscanv1.TryOpen_Draft{Draft: draft}
	}
	if c.Beside != "" {
		if open.Beside, err = clients.ParseRecipeRef(c.Beside); err != nil {
			return usage("--beside: %v", err)
		}
		if c.Addr == "" && c.Recipes == "" {
			return errNoRecipes
		}
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	if open.Beside != nil { // the console compares with versions without limits, too
		if r, err := (&target{recipe: open.Beside}).known(conn); err != nil {
			return err
		} else if !r.hasLimits() && r.file.Locate == nil { // the server refuses those that locate, and says so
			return usage("--beside: no region has limits: no frame could fail")
		}
	}
	kept, err := c.find(e, conn, "tried", false)
	if err != nil {
		return err
	}
	res, err := conn.Try(conn.ctx, open, c.keptFlags.read(conn, kept, c.Bits, c.frameFlags.read(e, c.Resident, files)))
	if err != nil {
		return conn.fail(err, "", t.regions)
	}
	if c.JSON {
		err = writeProto(e, res)
	} else {
		err = c.table(e, res)
	}
	if err != nil {
		return err
	}
	if n := res.GetTally(); c.FailOnError && n.GetGoodFailed()+n.GetBadPassed() > 0 {
		return errRejected
	}
	return nil
}

// writeProto prints a message as the schemas have it, on one line.
func writeProto(e *env, m proto.Message) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	return writeJSON(e.stdout, json.RawMessage(b)) // which has no spaces between
}

// table prints the frames that somebody should look at.
func (c *tryCmd) table(e *env, res *polyscanv1.TryResponse) error {
	t := &table{columns: []column{{title: "FRAME"}, {title: "IS"}, {title: "VERDICT"}, {title: "BESIDE"}, {title: "WHY"}}}
	for _, f := range res.GetFrames() {
		beside := f.GetBeside()
		other := beside != polyscanv1.Verdict_VERDICT_UNSPECIFIED && beside != f.GetVerdict()
		wrong := f.GetLabel() == polyscanv1.FrameLabel_FRAME_LABEL_BAD && f.GetVerdict() != polyscanv1.Verdict_VERDICT_FAIL
		if f.GetVerdict() != polyscanv1.Verdict_VERDICT_FAIL && !other && !wrong {
			continue
		}
		is := strings.ToLower(strings.TrimPrefix(f.GetLabel().String(), "FRAME_LABEL_"))
		if f.GetLabel() == polyscanv1.FrameLabel_FRAME_LABEL_UNSPECIFIED {
			is = ""
		}
		why := ""
		if len(f.GetFailed()) > 0 {
			r := f.GetFailed()[0]
			why = cli.Printable(r.GetRegionName()) + ": " + r.GetReason()
			if n := f.GetFailedRegions(); n > 1 {
				why = fmt.Sprintf("%d regions; %s", n, why)
			}
		}
		name := f.GetFrameId()
		if name == "" {
			name = "#" + strconv.Itoa(int(f.GetIndex()))
		}
		if name = cli.Printable(name); e.columns > 0 {
			name = shortenLeft(name, 24)
		}
		t.add(cell{text: name}, cell{text: is}, verdictCell(f.GetVerdict()), besideCell(beside),
			cell{text: e.rest(why, 36)})
	}
	t.dropEmpty("IS")
	t.dropEmpty("BESIDE")
	if len(t.rows) > 0 {
		if err := t.write(e, e.stdout); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s: %s", plural(len(res.GetFrames()), "frame", "frames"), tallyText(res.GetTally()))
	if res.GetBeside() != nil {
		text += fmt.Sprintf("\nby %s: %s", c.Beside, tallyText(res.GetBeside()))
	}
	_, err := fmt.Fprintln(e.stdout, text)
	return err
}

func besideCell(v polyscanv1.Verdict) cell {
	if v == polyscanv1.Verdict_VERDICT_UNSPECIFIED {
		return cell{}
	}
	return verdictCell(v)
}
