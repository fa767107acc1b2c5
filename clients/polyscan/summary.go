package main

// The table of a frame, and the lines under it.

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// maxReasons is how many failed limits are listed under a table; the JSON report has them all.
const maxReasons = 50

// maxNameColumns keeps a long region name from pushing the numbers off the screen.
const maxNameColumns = 40

// statisticColumns turn a channel's numbers into cells. A column is shown when some channel of the frame has its
// number.
var statisticColumns = []struct {
	title string
	get   func(c *polyscanv1.ChannelStatistics) string
}{
	{"COUNT", func(c *polyscanv1.ChannelStatistics) string { return integer(c.Count) }},
	{"SUM", func(c *polyscanv1.ChannelStatistics) string { return integer(c.Sum) }},
	{"SUM_SQ", func(c *polyscanv1.ChannelStatistics) string { return integer(c.SumOfSquares) }},
	{"MEAN", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Mean) }},
	{"VAR", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Variance) }},
	{"STD", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Stddev) }},
	{"MIN", func(c *polyscanv1.ChannelStatistics) string { return short(sample(c, c.Min)) }},
	{"P", nil}, // one column for each percentile
	{"MAX", func(c *polyscanv1.ChannelStatistics) string { return short(sample(c, c.Max)) }},
	{"MEDIAN", func(c *polyscanv1.ChannelStatistics) string { return short(c.Median) }},
	{"MODE", func(c *polyscanv1.ChannelStatistics) string { return short(sample(c, c.Mode)) }},
	{"DISTINCT", func(c *polyscanv1.ChannelStatistics) string { return integer(c.Distinct) }},
	{"SKEWNESS", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Skewness) }},
	{"KURTOSIS", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Kurtosis) }},
	{"ENTROPY", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Entropy) }},
	{"MAD", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.MeanAbsoluteDeviation) }},
	{"IQR", func(c *polyscanv1.ChannelStatistics) string { return short(c.InterquartileRange) }},
	{"KS", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.KolmogorovSmirnov) }},
	{"WASSERSTEIN", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.Wasserstein) }},
	{"JS", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.JensenShannon) }},
	{"CHISQUARE", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.ChiSquare) }},
	{"PLANE.X", func(c *polyscanv1.ChannelStatistics) string { return slope(c.PlaneX) }},
	{"PLANE.Y", func(c *polyscanv1.ChannelStatistics) string { return slope(c.PlaneY) }},
	{"RESIDUAL", func(c *polyscanv1.ChannelStatistics) string { return decimal(c.PlaneResidual) }},
	{"COV.SUM", func(c *polyscanv1.ChannelStatistics) string {
		if v := c.GetCovered(); v != nil {
			return short(&v.Sum)
		}
		return ""
	}},
	{"COV.MEAN", func(c *polyscanv1.ChannelStatistics) string {
		if v := c.GetCovered(); v != nil {
			return decimal(v.Mean)
		}
		return ""
	}},
	{"COV.STD", func(c *polyscanv1.ChannelStatistics) string {
		if v := c.GetCovered(); v != nil {
			return decimal(v.Stddev)
		}
		return ""
	}},
	{"CENTROID", func(c *polyscanv1.ChannelStatistics) string {
		if p := c.GetWeightedCentroid(); p != nil {
			return fmt.Sprintf("%.2f,%.2f", p.GetX(), p.GetY())
		}
		return ""
	}},
}

// writeTable prints the regions of a frame, a row for each channel, and why limits failed.
func writeTable(e *env, w io.Writer, res *polyscanv1.FrameResult) error {
	colour := res.GetLayout().GetPixelFormat() != polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY8 &&
		res.GetLayout().GetPixelFormat() != polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY16LE
	var percentiles []float64
	for _, g := range res.GetRegions() {
		for _, c := range g.GetChannels() {
			if len(c.GetPercentiles()) > 0 && percentiles == nil {
				for _, p := range c.GetPercentiles() {
					percentiles = append(percentiles, p.GetPercentile())
				}
			}
		}
	}

	t := &table{columns: []column{{title: "REGION"}}}
	repeated := 1
	var cells []func(c *polyscanv1.ChannelStatistics) string
	if colour {
		t.columns = append(t.columns, column{title: "CH"})
		repeated++
		cells = append(cells, func(c *polyscanv1.ChannelStatistics) string { return channelLetter(c.GetChannel()) })
	}
	anyHas := func(get func(c *polyscanv1.ChannelStatistics) string) bool {
		for _, g := range res.GetRegions() {
			for _, c := range g.GetChannels() {
				if get(c) != "" {
					return true
				}
			}
		}
		return false
	}
	for _, k := range statisticColumns {
		if k.get == nil {
			for i, p := range percentiles {
				t.columns = append(t.columns, column{"P" + number(p), true})
				cells = append(cells, func(c *polyscanv1.ChannelStatistics) string {
					if i < len(c.GetPercentiles()) {
						return short(&c.GetPercentiles()[i].Value)
					}
					return ""
				})
			}
			continue
		}
		if anyHas(k.get) {
			t.columns = append(t.columns, column{k.title, true})
			cells = append(cells, k.get)
		}
	}
	// Areas of the pixels, as COUNT is their number.
	scaled := slices.ContainsFunc(res.GetRegions(), func(g *polyscanv1.RegionResult) bool { return g.CountMm2 != nil })
	if scaled {
		t.columns = append(t.columns, column{"MM2", true})
	}
	weighed := slices.ContainsFunc(res.GetRegions(), func(g *polyscanv1.RegionResult) bool { return g.CoveredCount != nil })
	if weighed {
		t.columns = append(t.columns, column{"COVERED", true})
	}
	// Where a region reaches outside the frame, its numbers are of the rest of it alone.
	outside := slices.ContainsFunc(res.GetRegions(), reachesOutside)
	if outside {
		t.columns = append(t.columns, column{"INSIDE", true})
	}
	judged := res.GetVerdict() != polyscanv1.Verdict_VERDICT_UNSPECIFIED
	if judged {
		t.columns = append(t.columns, column{title: "VERDICT"})
	}

	for _, g := range res.GetRegions() {
		for j, c := range g.GetChannels() {
			row := []cell{{}}
			if j == 0 {
				row[0].text = e.fit(cli.Printable(g.GetName()), maxNameColumns)
			}
			for _, get := range cells {
				text := get(c)
				if text == "" {
					text = "-"
				}
				row = append(row, cell{text: text})
			}
			if scaled {
				mm := cell{}
				if j == 0 {
					mm.text = strconv.FormatFloat(g.GetCountMm2(), 'g', 6, 64)
				}
				row = append(row, mm)
			}
			if weighed {
				of := cell{}
				if j == 0 {
					of.text = strconv.FormatFloat(g.GetCoveredCount(), 'f', 3, 64)
				}
				row = append(row, of)
			}
			if outside {
				in := cell{}
				if j == 0 {
					in = coverageCell(g)
				}
				row = append(row, in)
			}
			if judged {
				v := cell{}
				if j == 0 {
					v = verdictCell(g.GetVerdict())
				}
				row = append(row, v)
			}
			t.add(row...)
		}
	}
	for i, b := range t.blocks(repeated) {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := b.write(e, w); err != nil {
			return err
		}
	}
	return writeReasons(e, w, res)
}

// pairRow is a row of a table of textures or correlations: what was looked at, how many pairs there are, and numbers,
// of which nil has no value.
type pairRow struct {
	of      string
	pairs   uint64
	numbers []*float64
}

// writeTextures prints the textures of a frame, a row for each region, channel and offset; nothing where there are
// none.
func writeTextures(e *env, w io.Writer, res *polyscanv1.FrameResult) error {
	titles := []string{"TEXTURE", "PAIR", "CONTRAST", "HOMOGEN.", "ENERGY", "CORREL.", "ENTROPY"}
	return writePairs(e, w, res, titles, func(c *polyscanv1.ChannelStatistics) (rows []pairRow) {
		for _, v := range c.GetTextures() {
			rows = append(rows, pairRow{fmt.Sprintf("%d,%d", v.GetOffset().GetDx(), v.GetOffset().GetDy()),
				v.GetPairs(), []*float64{v.Contrast, v.Homogeneity, v.Energy, v.Correlation, v.Entropy}})
		}
		return rows
	})
}

// writeCorrelations prints the correlations of a frame, a row for each region, channel and pair; nothing where there
// are none.
func writeCorrelations(e *env, w io.Writer, res *polyscanv1.FrameResult) error {
	titles := []string{"CORRELATION", "OF", "PRODUCT", "COVARIANCE", "CORREL."}
	return writePairs(e, w, res, titles, func(c *polyscanv1.ChannelStatistics) (rows []pairRow) {
		for _, v := range c.GetCorrelations() {
			rows = append(rows, pairRow{cli.Printable(reductions.FormatTerm(v.GetOf())), v.GetPairs(),
				[]*float64{v.Product, v.Covariance, v.Correlation}})
		}
		return rows
	})
}

// writePairs prints a table of what rows gives for the channels of each region; nothing where that is nothing. titles
// are of the region, of what was looked at, and of the numbers.
func writePairs(e *env, w io.Writer, res *polyscanv1.FrameResult, titles []string,
	rows func(*polyscanv1.ChannelStatistics) []pairRow) error {
	t := &table{columns: []column{{title: titles[0]}, {title: "CH"}, {title: titles[1]}, {"PAIRS", true}}}
	for _, title := range titles[2:] {
		t.columns = append(t.columns, column{title, true})
	}
	for _, g := range res.GetRegions() {
		name := e.fit(cli.Printable(g.GetName()), maxTextureName)
		for _, c := range g.GetChannels() {
			channel := ""
			if len(g.GetChannels()) > 1 {
				channel = channelLetter(c.GetChannel())
			}
			for _, r := range rows(c) {
				row := []cell{{text: name}, {text: channel}, {text: r.of}, {text: strconv.FormatUint(r.pairs, 10)}}
				name = ""
				for _, number := range r.numbers {
					text := "-"
					if number != nil {
						text = strconv.FormatFloat(*number, 'g', 4, 64)
					}
					row = append(row, cell{text: text})
				}
				t.add(row...)
			}
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	t.dropEmpty("CH")
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return t.write(e, w)
}

// maxTextureName leaves room for the numbers of textures in a line.
const maxTextureName = 16

// writeReasons lists the limits that failed.
func writeReasons(e *env, w io.Writer, res *polyscanv1.FrameResult) error {
	t := &table{columns: []column{{title: "FAILED"}, {title: "LIMIT"}, {title: "BECAUSE"}}}
	more := 0
	for _, g := range res.GetRegions() {
		for _, l := range g.GetLimits() {
			if l.GetVerdict() != polyscanv1.Verdict_VERDICT_FAIL {
				continue
			}
			if len(t.rows) == maxReasons {
				more++
				continue
			}
			t.add(cell{e.fit(cli.Printable(g.GetName()), maxNameColumns), cli.Red},
				cell{text: cli.Printable(l.GetExpression())}, cell{text: cli.Printable(l.GetReason())})
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	if !t.fits() { // the reasons go below the limits
		narrow := &table{columns: t.columns[:2]}
		for _, r := range t.rows {
			narrow.add(r[0], r[1])
			narrow.add(cell{}, r[2])
		}
		t = narrow
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := t.write(e, w); err != nil {
		return err
	}
	if more > 0 {
		if _, err := fmt.Fprintf(w, "and %d more failed limits; --json lists them all\n", more); err != nil {
			return err
		}
	}
	return nil
}

// writeSummary prints the lines under the table: the frame, how it was measured, and the verdict. On a terminal they
// fit: of a long path the end is shown.
func writeSummary(e *env, w io.Writer, name string, res *polyscanv1.FrameResult, total time.Duration) error {
	l := res.GetLayout()
	format := cli.FormatName(l.GetPixelFormat())
	if b := l.GetSignificantBits(); b > 8 {
		format += fmt.Sprintf(" (%d bits)", b)
	}
	frame := fmt.Sprintf(": %dx%d %s, %s", l.GetWidth(), l.GetHeight(), format,
		plural(len(res.GetRegions()), "region", "regions"))
	if name = cli.Printable(name); e.columns > 0 {
		name = shortenLeft(name, max(e.columns, tableWidth)-len(frame))
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n%s %s, compute %s of %s\n%s\n", name, frame, res.GetBackend(), methodName(res.GetMethod()),
		pretty(res.GetTimes().GetCompute().AsDuration()), pretty(total), verdictText(e, res))
	if l := res.GetLocation(); l != nil && err == nil {
		_, err = fmt.Fprintln(w, locationText(e, l))
	}
	return err
}

// verdictText says how the frame came out.
func verdictText(e *env, res *polyscanv1.FrameResult) string {
	failed, judged := 0, 0
	for _, g := range res.GetRegions() {
		switch g.GetVerdict() {
		case polyscanv1.Verdict_VERDICT_FAIL:
			failed++
			judged++
		case polyscanv1.Verdict_VERDICT_PASS:
			judged++
		}
	}
	switch res.GetVerdict() {
	case polyscanv1.Verdict_VERDICT_PASS:
		return e.paint(cli.Green, "PASS") + fmt.Sprintf(" (%s with limits)", plural(judged, "region", "regions"))
	case polyscanv1.Verdict_VERDICT_FAIL:
		if judged == 0 {
			return e.paint(cli.Red, "FAIL") + " (no limits)"
		}
		return e.paint(cli.Red, "FAIL") +
			fmt.Sprintf(" (%d of %s with limits)", failed, plural(judged, "region", "regions"))
	}
	return "no limits"
}

func verdictCell(v polyscanv1.Verdict) cell {
	switch v {
	case polyscanv1.Verdict_VERDICT_PASS:
		return cell{"PASS", cli.Green}
	case polyscanv1.Verdict_VERDICT_FAIL:
		return cell{"FAIL", cli.Red}
	}
	return cell{"-", cli.Dim}
}

// reachesOutside says that a region's numbers aren't those of all of it.
func reachesOutside(g *polyscanv1.RegionResult) bool { return g.GetCoverage() < 1 }

// whyFailed says why a frame is FAIL, briefly; empty where it isn't.
func whyFailed(res *polyscanv1.FrameResult) string {
	if res.GetVerdict() != polyscanv1.Verdict_VERDICT_FAIL {
		return ""
	}
	var why []string
	for _, g := range res.GetRegions() {
		for _, l := range g.GetLimits() {
			if l.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
				why = append(why, g.GetName()+": "+l.GetReason())
			}
		}
	}
	if lost := cli.NotFound(res.GetLocation()); lost != "" { // all limits say the same
		why = []string{lost}
	}
	const most = 3
	more := ""
	if len(why) > most {
		more = fmt.Sprintf(" (and %d more)", len(why)-most)
		why = why[:most]
	}
	return cli.Printable(strings.Join(why, "; ")) + more
}

// coverageCell is how much of a region lies inside the frame, in percent; never all or nothing where that isn't so.
func coverageCell(g *polyscanv1.RegionResult) cell {
	switch c := 100 * g.GetCoverage(); {
	case g.Coverage == nil:
		return cell{"?", cli.Red}
	case c == 100:
		return cell{text: "100 %"}
	case c == 0:
		return cell{"0 %", cli.Red}
	default:
		return cell{fmt.Sprintf("%.1f %%", min(max(c, 0.1), 99.9)), cli.Red}
	}
}

func channelLetter(c polyscanv1.Channel) string {
	switch c {
	case polyscanv1.Channel_CHANNEL_RED:
		return "R"
	case polyscanv1.Channel_CHANNEL_GREEN:
		return "G"
	case polyscanv1.Channel_CHANNEL_BLUE:
		return "B"
	case polyscanv1.Channel_CHANNEL_ALPHA:
		return "A"
	case polyscanv1.Channel_CHANNEL_GRAY:
		return "Y"
	case polyscanv1.Channel_CHANNEL_GRAY_709:
		return "Y709"
	case polyscanv1.Channel_CHANNEL_HUE:
		return "hue"
	case polyscanv1.Channel_CHANNEL_SATURATION:
		return "sat"
	case polyscanv1.Channel_CHANNEL_VALUE:
		return "val"
	case polyscanv1.Channel_CHANNEL_LAB_L:
		return "L*"
	case polyscanv1.Channel_CHANNEL_LAB_A:
		return "a*"
	case polyscanv1.Channel_CHANNEL_LAB_B:
		return "b*"
	case polyscanv1.Channel_CHANNEL_MATRIX_X:
		return "mx"
	case polyscanv1.Channel_CHANNEL_MATRIX_Y:
		return "my"
	case polyscanv1.Channel_CHANNEL_MATRIX_Z:
		return "mz"
	case polyscanv1.Channel_CHANNEL_GRADIENT:
		return "grad"
	case polyscanv1.Channel_CHANNEL_LAPLACIAN:
		return "lap"
	}
	return ""
}

// integer is empty for an unset value, as are the others.
func integer[T uint32 | uint64](v *T) string {
	if v == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*v), 10)
}

func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}

// short is a whole number as such, and two decimals otherwise.
func short(v *float64) string {
	if v == nil {
		return ""
	}
	if *v == math.Trunc(*v) {
		return strconv.FormatFloat(*v, 'f', 0, 64)
	}
	return decimal(v)
}

// slope has four decimals: light that falls off by 4 levels over 1000 pixels shows.
func slope(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', 4, 64)
}

// pretty is a duration to about three digits.
func pretty(d time.Duration) string {
	v, unit := float64(d)/float64(time.Microsecond), "µs"
	if d >= time.Second {
		v, unit = d.Seconds(), "s"
	} else if d >= time.Millisecond {
		v, unit = float64(d)/float64(time.Millisecond), "ms"
	}
	return shortly(v) + " " + unit
}

// shortly writes a positive number with two decimals below 10, one below 100 and none above.
func shortly(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
