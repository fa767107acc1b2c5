package main

// plcgateway timeline: when a part was where, by the gateway's log.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

type timelineCmd struct {
	// Id of the part.
	Part string `arg:"" optional:""`
	// Trigger of the part, for those that have no id.
	Trigger uint32 `placeholder:"ID"`
	// Station of the part, where several have such a part.
	Station string `placeholder:"NAME"`
	// Log of the gateway (default: standard input).
	Log string `placeholder:"FILE" predictor:"file"`
}

// stepNames say what the steps of the log mean, and whose clock they are by.
var stepNames = map[string]string{
	"exposed":   "camera: the last line was exposed",
	"last_line": "server: the strip with the last line that the part needs was there",
	"judged":    "server: the verdict was sent to those who watch",
	"triggered": "gateway: the trigger was accepted",
	"received":  "gateway: Watch brought the verdict",
	"answered":  "gateway: the answer was decided",
	"presented": "gateway: it stood in the registers",
	"read":      "gateway: the PLC had read them",
	"acked":     "gateway: the PLC had acknowledged",
}

func (c *timelineCmd) Run(e *env) error {
	if c.Part == "" && c.Trigger == 0 {
		return usage("timeline: want a PART or --trigger")
	}
	in := e.stdin
	if c.Log != "" {
		f, err := os.Open(c.Log)
		if err != nil {
			return usage("--log: %v", err)
		}
		defer f.Close()
		in = f
	}
	n := 0
	var open []map[string]string // parts whose end the log has not said yet, in its order
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		m := logLine(text)
		wanted := (c.Part == "" || m["part"] == c.Part) && (c.Station == "" || m["station"] == c.Station) &&
			(c.Trigger == 0 || m["trigger"] == strconv.FormatUint(uint64(c.Trigger), 10))
		switch {
		case !wanted:
		case m["msg"] == msgPart:
			n++
			open = append(open, m)
		case m["msg"] == msgAcknowledged || m["msg"] == msgDropped:
			i := slices.IndexFunc(open, func(o map[string]string) bool {
				return o["station"] == m["station"] && o["sequence"] == m["sequence"] && o["trigger"] == m["trigger"]
			})
			if i < 0 {
				break // its trigger came again
			}
			maps.Copy(open[i], m)
			printTimeline(e.stdout, open[i])
			open = slices.Delete(open, i, i+1)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	for _, m := range open {
		printTimeline(e.stdout, m)
	}
	if n == 0 {
		return fmt.Errorf("the log has no such part: it is logged when its answer stands in the registers, and with " +
			"log-level " +
			"info or debug")
	}
	return nil
}

// logLine is a line of the gateway's log, in either format. One that is neither has no fields.
func logLine(text string) map[string]string {
	m := map[string]string{}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var values map[string]any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&values) != nil {
			return nil
		}
		for k, v := range values {
			m[k] = fmt.Sprint(v)
		}
		return m
	}
	for text != "" {
		key, rest, ok := strings.Cut(text, "=")
		if !ok {
			return nil
		}
		if value, err := strconv.QuotedPrefix(rest); err == nil && strings.HasPrefix(rest, `"`) {
			m[key], _ = strconv.Unquote(value)
			text = rest[len(value):]
		} else {
			m[key], text, _ = strings.Cut(rest, " ")
			text = " " + text
		}
		text = strings.TrimLeft(text, " ")
	}
	return m
}

// printTimeline prints a part's line of the log. Times count from the first step that is known.
func printTimeline(w io.Writer, m map[string]string) {
	what := "part " + m["part"]
	if m["part"] == "" {
		what = "part without an id"
	}
	fmt.Fprintf(w, "%s, trigger %s of station %s: %s, %s; recipe %s@%s, %s failed regions\n", cli.Printable(what), m["trigger"],
		cli.Printable(m["station"]), m["verdict"], m["reason"], cli.Printable(m["recipe"]), m["version"], m["failed_regions"])
	for _, text := range []string{m["origin"], m["detail"]} {
		if text != "" {
			fmt.Fprintf(w, "%12s  %s\n", "", cli.Printable(text))
		}
	}
	var steps []station.Step
	for _, s := range (&station.Steps{}).All() {
		if at, err := time.Parse(time.RFC3339Nano, m[s.Name]); err == nil {
			steps = append(steps, station.Step{Name: s.Name, At: at})
		}
	}
	// A trigger comes before the verdict or behind it, and before or behind the last line.
	slices.SortStableFunc(steps, func(a, b station.Step) int { return a.At.Compare(b.At) })
	for _, s := range steps {
		fmt.Fprintf(w, "%9.3f ms  %s  %-9s  %s\n", ms(s.At.Sub(steps[0].At)), s.At.UTC().Format("15:04:05.000000"), s.Name,
			stepNames[s.Name])
	}
	switch {
	case m["msg"] == msgDropped:
		fmt.Fprintf(w, "%12s  the PLC did not acknowledge it: dropped by a reset, or with its holder\n", "")
	case m["acked"] == "":
		fmt.Fprintf(w, "%12s  the log ends before the PLC's acknowledgement\n", "")
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
