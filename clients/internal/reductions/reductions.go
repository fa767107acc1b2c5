// Package reductions spells what to compute as regions files and flags do: "mean", "percentiles(1, 99, linear)",
// "blobs(>= 128)", "radial(32)".
package reductions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/internal/spelling"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Statistics are all of them, by the names that files and flags have for them.
var Statistics = []struct {
	Name      string
	Statistic polyscanv1.Statistic
}{
	{"count", polyscanv1.Statistic_STATISTIC_COUNT},
	{"sum", polyscanv1.Statistic_STATISTIC_SUM},
	{"sum_sq", polyscanv1.Statistic_STATISTIC_SUM_OF_SQUARES},
	{"mean", polyscanv1.Statistic_STATISTIC_MEAN},
	{"variance", polyscanv1.Statistic_STATISTIC_VARIANCE},
	{"stddev", polyscanv1.Statistic_STATISTIC_STDDEV},
	{"min", polyscanv1.Statistic_STATISTIC_MIN},
	{"max", polyscanv1.Statistic_STATISTIC_MAX},
	{"histogram", polyscanv1.Statistic_STATISTIC_HISTOGRAM},
	{"percentiles", polyscanv1.Statistic_STATISTIC_PERCENTILES},
	{"median", polyscanv1.Statistic_STATISTIC_MEDIAN},
	{"mode", polyscanv1.Statistic_STATISTIC_MODE},
	{"distinct", polyscanv1.Statistic_STATISTIC_DISTINCT},
	{"centroid", polyscanv1.Statistic_STATISTIC_CENTROID},
	{"skewness", polyscanv1.Statistic_STATISTIC_SKEWNESS},
	{"kurtosis", polyscanv1.Statistic_STATISTIC_KURTOSIS},
	{"entropy", polyscanv1.Statistic_STATISTIC_ENTROPY},
	{"mad", polyscanv1.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION},
	{"iqr", polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE},
	{"cumulative", polyscanv1.Statistic_STATISTIC_CUMULATIVE},
	{"distances", polyscanv1.Statistic_STATISTIC_DISTANCES},
	{"plane", polyscanv1.Statistic_STATISTIC_PLANE},
}

// basicStatistics is how many of the first statistics "basic" stands for, the protocol's default.
const basicStatistics = 8

// What is asked for beside the statistics, by names like theirs.
const covered, coveredHistogram = "covered", "covered_histogram"

func statisticName(s polyscanv1.Statistic) string {
	for _, k := range Statistics {
		if k.Statistic == s {
			return k.Name
		}
	}
	return "unknown"
}

var colorSpaces = []struct {
	name  string
	space polyscanv1.ColorSpace
}{
	{"gray", polyscanv1.ColorSpace_COLOR_SPACE_GRAY}, {"gray709", polyscanv1.ColorSpace_COLOR_SPACE_GRAY_709},
	{"hsv", polyscanv1.ColorSpace_COLOR_SPACE_HSV}, {"lab", polyscanv1.ColorSpace_COLOR_SPACE_LAB},
}

var derivatives = []string{"gradient", "laplacian"} // in the order of the protocol

// ParseOffset reads DX,DY.
func ParseOffset(s string) (*polyscanv1.PixelOffset, error) {
	a, b, ok := strings.Cut(s, ",")
	dx, errX := strconv.ParseInt(strings.TrimSpace(a), 10, 32)
	dy, errY := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
	if !ok || errX != nil || errY != nil {
		return nil, fmt.Errorf("%q: want DX,DY, such as 1,0", s)
	}
	return &polyscanv1.PixelOffset{Dx: int32(dx), Dy: int32(dy)}, nil
}

// AddStatistic asks for what a name stands for.
func AddStatistic(r *polyscanv1.Reductions, name string) error {
	low := strings.ToLower(strings.TrimSpace(name))
	switch low {
	case "all":
		for _, k := range Statistics {
			Add(r, k.Statistic)
		}
		return nil
	case "basic":
		for _, k := range Statistics[:basicStatistics] {
			Add(r, k.Statistic)
		}
		return nil
	case "std":
		low = "stddev"
	case "sum_of_squares":
		low = "sum_sq"
	}
	switch low {
	case covered:
		if r.Covered == nil {
			r.Covered = &polyscanv1.CoveredSpec{}
		}
		return nil
	case coveredHistogram:
		r.Covered = &polyscanv1.CoveredSpec{Histogram: true}
		return nil
	}
	for _, k := range Statistics {
		if k.Name == low {
			Add(r, k.Statistic)
			return nil
		}
	}
	return fmt.Errorf("%q: want %s, basic or all", name, strings.Join(Names(), ", "))
}

// Names are those of the statistics.
func Names() []string {
	names := make([]string, len(Statistics))
	for i, k := range Statistics {
		names[i] = k.Name
	}
	return names
}

// What else reductions of a regions file begin with.
var (
	correlationWords = []string{"autocorrelation", "autocovariance", "radial", "correlation", "covariance", "ncc"}
	reductionWords   = append([]string{covered, coveredHistogram, "texture", "blobs", "basic", "all", "color",
		"color_matrix", "derivative"}, correlationWords...)
)

// AddDerivatives asks for channels that are derived from neighbouring pixels, by their names.
func AddDerivatives(r *polyscanv1.Reductions, names []string) error {
	for _, name := range names {
		at := slices.Index(derivatives, strings.ToLower(strings.TrimSpace(name)))
		if at < 0 {
			return fmt.Errorf("%q: want gradient or laplacian", name)
		}
		if d := polyscanv1.Derivative(at + 1); !slices.Contains(r.Derivatives, d) {
			r.Derivatives = append(r.Derivatives, d)
		}
	}
	return nil
}

// AddColors asks for channels that are derived from colours, by the names of their spaces.
func AddColors(r *polyscanv1.Reductions, names []string) error {
	for _, name := range names {
		at := slices.IndexFunc(colorSpaces, func(c struct {
			name  string
			space polyscanv1.ColorSpace
		}) bool {
			return strings.EqualFold(c.name, strings.TrimSpace(name))
		})
		if at < 0 {
			return fmt.Errorf("%q: want gray, gray709, hsv or lab", name)
		}
		if space := colorSpaces[at].space; !slices.Contains(r.Colors, space) {
			r.Colors = append(r.Colors, space)
		}
	}
	return nil
}

// AddColorMatrix asks for the channels of a matrix, whose numbers are given row by row.
func AddColorMatrix(r *polyscanv1.Reductions, numbers []string) error {
	r.Colors = append(r.Colors, polyscanv1.ColorSpace_COLOR_SPACE_MATRIX)
	for _, text := range numbers {
		v, err := digits.Float(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		r.ColorMatrix = append(r.ColorMatrix, v)
	}
	if n := len(r.ColorMatrix); n != 9 {
		return fmt.Errorf("want nine numbers, found %d", n)
	}
	return nil
}

// meantReduction asks whether somebody who wrote one word meant another.
func meantReduction(word string) string {
	near := spelling.Nearest(strings.TrimSpace(word), append(Names(), reductionWords...))
	if p, ok := strings.CutPrefix(word, "p"); ok { // as limits have it
		if _, err := digits.Float(p); err == nil {
			near = "percentiles(" + p + ")"
		}
	}
	if near == "" {
		return ": want " + strings.Join(Names(), ", ") + ", basic or all"
	}
	return fmt.Sprintf(": did you mean %q?", near)
}

// Add asks for one more statistic.
func Add(r *polyscanv1.Reductions, s polyscanv1.Statistic) {
	for _, have := range r.Statistics {
		if have == s {
			return
		}
	}
	r.Statistics = append(r.Statistics, s)
}

// Format writes reductions as a regions file has them: names of statistics, the percentiles and the bins in
// brackets.
func Format(r *polyscanv1.Reductions) []string {
	out := []string{}
	for _, s := range r.GetStatistics() {
		text := statisticName(s)
		switch s {
		case polyscanv1.Statistic_STATISTIC_PERCENTILES:
			var args []string
			for _, p := range r.GetPercentiles() {
				args = append(args, number(p))
			}
			if r.GetPercentileMethod() == polyscanv1.PercentileMethod_PERCENTILE_METHOD_LINEAR {
				args = append(args, "linear")
			}
			text += brackets(args)
		case polyscanv1.Statistic_STATISTIC_HISTOGRAM:
			if h := r.GetHistogram(); h.GetBins() != 0 {
				args := []string{strconv.Itoa(int(h.GetBins()))}
				if h.GetLower() != 0 || h.GetUpper() != 0 {
					args = append(args, number(h.GetLower()), number(h.GetUpper()))
				}
				text += brackets(args)
			}
		}
		out = append(out, text)
	}
	if c := r.GetCovered(); c != nil {
		out = append(out, map[bool]string{false: covered, true: coveredHistogram}[c.GetHistogram()])
	}
	if c := r.GetCooccurrence(); c != nil {
		var args []string
		for _, o := range c.GetOffsets() {
			args = append(args, fmt.Sprintf("%d,%d", o.GetDx(), o.GetDy()))
		}
		if n := c.GetLevels(); n != 0 {
			args = append(args, fmt.Sprintf("%d levels", n))
		}
		if c.GetCounts() {
			args = append(args, "counts")
		}
		text := "texture"
		if len(args) > 0 {
			text += "(" + strings.Join(args, "; ") + ")"
		}
		out = append(out, text)
	}
	if b := r.GetBlobs(); b != nil {
		out = append(out, "blobs("+FormatBlobs(b)+")")
	}
	for _, t := range r.GetCorrelations() {
		out = append(out, FormatTerm(t))
	}
	var spaces, matrix, near []string
	for _, c := range colorSpaces {
		if slices.Contains(r.GetColors(), c.space) {
			spaces = append(spaces, c.name)
		}
	}
	for i, name := range derivatives {
		if slices.Contains(r.GetDerivatives(), polyscanv1.Derivative(i+1)) {
			near = append(near, name)
		}
	}
	for _, v := range r.GetColorMatrix() {
		matrix = append(matrix, number(v))
	}
	if len(spaces) > 0 {
		out = append(out, "color"+brackets(spaces))
	}
	if len(matrix) > 0 {
		out = append(out, "color_matrix"+brackets(matrix))
	}
	if len(near) > 0 {
		out = append(out, "derivative"+brackets(near))
	}
	return out
}

func brackets(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return "(" + strings.Join(args, ", ") + ")"
}

// Parse reads what Format writes, and nil for none.
func Parse(list []string) (*polyscanv1.Reductions, error) {
	if len(list) == 0 {
		return nil, nil
	}
	r := &polyscanv1.Reductions{}
	first := map[string]int{}
	for i, s := range list {
		t, noTerm := ParseTerm(s)
		if noTerm == nil {
			r.Correlations = append(r.Correlations, t)
			continue
		}
		name, rest, bracketed := strings.Cut(s, "(")
		name = strings.ToLower(strings.TrimSpace(name))
		switch at, again := first[name]; name {
		case "percentiles", "histogram", "texture", "blobs", "color_matrix": // of which there is one
			if again {
				return nil, fmt.Errorf("reductions[%d]: %q comes a second time, first as %q: write one of them", i, s, list[at])
			}
			first[name] = i
		}
		if name == "color" || name == "color_matrix" || name == "derivative" {
			inner, ok := strings.CutSuffix(strings.TrimSpace(rest), ")")
			read := map[string]func(*polyscanv1.Reductions, []string) error{"color": AddColors,
				"color_matrix": AddColorMatrix, "derivative": AddDerivatives}[name]
			if err := read(r, strings.Split(inner, ",")); err != nil || !ok {
				return nil, fmt.Errorf("reductions[%d]: %q: want color(gray, gray709, hsv, lab), color_matrix(M, M, …) of "+
					"nine numbers, or derivative(gradient, laplacian)", i, s)
			}
			continue
		}
		if name == "texture" && !bracketed {
			r.Cooccurrence = &polyscanv1.CooccurrenceSpec{}
			continue
		}
		if err := AddStatistic(r, name); err != nil && name != "texture" && name != "blobs" {
			if word, _, _ := strings.Cut(name, " "); slices.Contains(correlationWords, word) {
				return nil, fmt.Errorf("reductions[%d]: %v", i, noTerm)
			}
			return nil, fmt.Errorf("reductions[%d]: %q is none of the statistics%s", i, s, meantReduction(name))
		}
		if !bracketed && name == "blobs" {
			return nil, fmt.Errorf("reductions[%d]: %q: %s", i, s, wantBlobs)
		} else if !bracketed {
			continue
		}
		inner, ok := strings.CutSuffix(strings.TrimSpace(rest), ")")
		if !ok {
			return nil, fmt.Errorf("reductions[%d]: %q: the bracket isn't closed", i, s)
		}
		if name == "texture" {
			var err error
			if r.Cooccurrence, err = textureArgs(strings.Split(inner, ";")); err != nil {
				return nil, fmt.Errorf("reductions[%d]: %q: %v", i, s, err)
			}
			continue
		}
		if name == "blobs" {
			var err error
			if r.Blobs, err = ParseBlobs(inner); err != nil {
				return nil, fmt.Errorf("reductions[%d]: blobs: %v", i, err)
			}
			continue
		}
		args := strings.Split(inner, ",")
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}
		switch name {
		case "percentiles":
			if err := percentileArgs(r, args); err != nil {
				return nil, fmt.Errorf("reductions[%d]: %q: %v", i, s, err)
			}
		case "histogram":
			if err := histogramArgs(r, args); err != nil {
				return nil, fmt.Errorf("reductions[%d]: %q: %v", i, s, err)
			}
		default:
			return nil, fmt.Errorf("reductions[%d]: %q: %s takes no arguments", i, s, name)
		}
	}
	return r, nil
}

func percentileArgs(r *polyscanv1.Reductions, args []string) error {
	if n := len(args); args[n-1] == "linear" {
		r.PercentileMethod = polyscanv1.PercentileMethod_PERCENTILE_METHOD_LINEAR
		args = args[:n-1]
	}
	r.Percentiles = nil
	for _, a := range args {
		p, err := digits.Float(a)
		if err != nil || !(p >= 0 && p <= 100) {
			return fmt.Errorf("percentile %q: want a number from 0 to 100", a)
		}
		r.Percentiles = append(r.Percentiles, p)
	}
	return nil
}

// textureArgs reads offsets, "N levels" and "counts".
func textureArgs(args []string) (*polyscanv1.CooccurrenceSpec, error) {
	c := &polyscanv1.CooccurrenceSpec{}
	for _, a := range args {
		a = strings.TrimSpace(a)
		if n, ok := strings.CutSuffix(a, "levels"); ok {
			v, err := strconv.ParseUint(strings.TrimSpace(n), 10, 32)
			if err != nil || !digits.Whole(strings.TrimSpace(n)) || v < 2 || v > 256 {
				return nil, fmt.Errorf("%q: want 2 to 256 levels", a)
			}
			c.Levels = uint32(v)
			continue
		}
		if a == "counts" {
			c.Counts = true
			continue
		}
		offset, err := ParseOffset(a)
		if err != nil {
			return nil, err
		}
		c.Offsets = append(c.Offsets, offset)
	}
	return c, nil
}

func histogramArgs(r *polyscanv1.Reductions, args []string) error {
	if len(args) != 1 && len(args) != 3 {
		return fmt.Errorf("want (BINS) or (BINS, LOWER, UPPER)")
	}
	bins, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil || !digits.Whole(args[0]) || bins == 0 {
		return fmt.Errorf("bins %q: want a whole number from 1", args[0])
	}
	r.Histogram = &polyscanv1.HistogramSpec{Bins: uint32(bins)}
	if len(args) == 3 {
		for i, v := range []*float64{&r.Histogram.Lower, &r.Histogram.Upper} {
			if *v, err = digits.Float(args[i+1]); err != nil {
				return err
			}
		}
		if !(r.Histogram.Lower < r.Histogram.Upper) {
			return fmt.Errorf("the lower end must be less than the upper")
		}
	}
	return nil
}

// number writes a float so that it reads back as the same.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
