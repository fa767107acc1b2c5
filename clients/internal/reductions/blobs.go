package reductions

// What blobs are, as text: of --find and --blobs, and of the reductions of regions files.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/internal/spelling"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// blobUnits are how bounds spell what they are in.
var blobUnits = []struct {
	text      string
	threshold polyscanv1.BlobThreshold
}{
	{"%", polyscanv1.BlobThreshold_BLOB_THRESHOLD_PERCENTILES},
	{"sd", polyscanv1.BlobThreshold_BLOB_THRESHOLD_DEVIATIONS},
	{"", polyscanv1.BlobThreshold_BLOB_THRESHOLD_VALUES},
}

var morphs = []struct {
	name string
	kind polyscanv1.MorphKind
}{
	{"erode", polyscanv1.MorphKind_MORPH_KIND_ERODE}, {"dilate", polyscanv1.MorphKind_MORPH_KIND_DILATE},
	{"open", polyscanv1.MorphKind_MORPH_KIND_OPEN}, {"close", polyscanv1.MorphKind_MORPH_KIND_CLOSE},
}

const wantBlobs = `want a range such as ">= 128", "<= 40", "40 to 90", ">= 99 %" (percentile) or ">= 3 sd" ` +
	`(deviations from the mean), and then any of "strong RANGE", "channel r", "open 3x3", "close disc 2", "erode …", ` +
	`"dilate …", "min area N", "most N", "by area", "4-connected" and "contours", with commas between them`

// ParseBlobs reads what FormatBlobs writes.
func ParseBlobs(text string) (*polyscanv1.BlobSpec, error) {
	b := &polyscanv1.BlobSpec{}
	for part := range strings.SplitSeq(text, ",") {
		if err := blobPart(b, strings.Fields(strings.ToLower(part))); err != nil {
			return nil, fmt.Errorf("%q: %v", strings.TrimSpace(part), err)
		}
	}
	if b.Lower == nil && b.Upper == nil {
		return nil, fmt.Errorf("%q: %s", text, wantBlobs)
	}
	return b, nil
}

// blobPart reads one of the parts.
func blobPart(b *polyscanv1.BlobSpec, words []string) error {
	line := strings.Join(words, " ")
	whole := func(prefix string, most uint64) (uint32, error) { // 0 is what the server takes as not said
		n, err := strconv.ParseUint(strings.TrimPrefix(line, prefix), 10, 32)
		if err != nil || !digits.Whole(strings.TrimPrefix(line, prefix)) || n == 0 || n > most {
			return 0, fmt.Errorf("want %s and a whole number from 1 to %d", strings.TrimSpace(prefix), most)
		}
		return uint32(n), nil
	}
	var err error
	switch {
	case len(words) == 0:
		return fmt.Errorf("is empty: %s", wantBlobs)
	case line == "4-connected":
		b.FourConnected = true
	case line == "contours":
		b.Contours = true
	case line == "by area":
		b.Order = polyscanv1.BlobOrder_BLOB_ORDER_AREA
	case strings.HasPrefix(line, "min area ") && b.MinArea > 0, strings.HasPrefix(line, "most ") && b.MaxBlobs > 0,
		strings.HasPrefix(line, "channel ") && b.Channel != 0:
		return fmt.Errorf("is said twice")
	case strings.HasPrefix(line, "min area "):
		b.MinArea, err = whole("min area ", 1<<29)
	case strings.HasPrefix(line, "most "):
		b.MaxBlobs, err = whole("most ", 1<<16)
	case strings.HasPrefix(line, "channel "):
		for c := polyscanv1.Channel_CHANNEL_GRAY; c <= polyscanv1.Channel_CHANNEL_ALPHA; c++ {
			if name := channelName(c); words[1] == name || c != polyscanv1.Channel_CHANNEL_GRAY &&
				words[1] == name[:1] {
				b.Channel = c
				return nil
			}
		}
		return fmt.Errorf("want gray, r, g, b or a")
	case words[0] == "strong":
		return blobRange(b, strings.TrimPrefix(line, "strong "), &b.StrongLower, &b.StrongUpper)
	default:
		for _, m := range morphs {
			if words[0] == m.name {
				return blobStep(b, m.kind, words[1:])
			}
		}
		if c := words[0][0]; 'a' <= c && c <= 'z' {
			return unknownWord(words[0])
		}
		return blobRange(b, line, &b.Lower, &b.Upper)
	}
	return err
}

// unknownWord is the error of a part that begins with none of the words that parts do.
func unknownWord(word string) error {
	known := []string{"strong", "channel", "min", "most", "by", "4-connected", "contours"}
	for _, m := range morphs {
		known = append(known, m.name)
	}
	if near := spelling.Nearest(word, known); near != "" && near != word {
		return fmt.Errorf("%s is no part of it: did you mean %s?", word, near)
	}
	return errors.New(wantBlobs)
}

// blobStep reads WxH or disc R.
func blobStep(b *polyscanv1.BlobSpec, kind polyscanv1.MorphKind, words []string) error {
	m := &polyscanv1.Morph{Kind: kind}
	number := func(s string, most int) (uint32, bool) {
		n, err := strconv.Atoi(s)
		return uint32(n), err == nil && digits.Whole(s) && n >= 1 && n <= most
	}
	var okW, okH bool
	switch w, h, sides := strings.Cut(strings.Join(words, " "), "x"); {
	case len(words) == 2 && words[0] == "disc":
		if m.Radius, okW = number(words[1], 31); okW {
			b.Steps = append(b.Steps, m)
			return nil
		}
		return fmt.Errorf("want disc and a radius of 1 to 31")
	case sides:
		m.Width, okW = number(w, 63)
		m.Height, okH = number(h, 63)
		if okW && okH && m.Width%2 == 1 && m.Height%2 == 1 {
			b.Steps = append(b.Steps, m)
			return nil
		}
	}
	return fmt.Errorf("want WIDTHxHEIGHT, both odd and up to 63, or disc RADIUS")
}

// blobRange reads >= A, <= B or A to B, with a unit behind.
func blobRange(b *polyscanv1.BlobSpec, text string, lower, upper **float64) error {
	if *lower != nil || *upper != nil {
		return fmt.Errorf("there is a range already")
	}
	unit := polyscanv1.BlobThreshold_BLOB_THRESHOLD_UNSPECIFIED
	for _, u := range blobUnits {
		if rest, ok := strings.CutSuffix(text, u.text); ok {
			text, unit = strings.TrimSpace(rest), u.threshold
			break
		}
	}
	if b.Threshold != 0 && b.Threshold != unit {
		return fmt.Errorf("ranges are in one unit: samples, %% or sd")
	}
	end := func(s string, to **float64) error {
		v, err := digits.Float(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("%s", wantBlobs)
		}
		*to = &v
		return nil
	}
	b.Threshold = unit
	if rest, ok := strings.CutPrefix(text, ">="); ok {
		return end(rest, lower)
	}
	if rest, ok := strings.CutPrefix(text, "<="); ok {
		return end(rest, upper)
	}
	from, to, ok := strings.Cut(text, " to ")
	if !ok {
		return fmt.Errorf("%s", wantBlobs)
	}
	if err := end(from, lower); err != nil {
		return err
	}
	if err := end(to, upper); err != nil {
		return err
	}
	if **lower > **upper {
		return fmt.Errorf("the lower end must not be above the upper")
	}
	return nil
}

// FormatBlobs writes a message as text.
func FormatBlobs(b *polyscanv1.BlobSpec) string {
	unit := ""
	for _, u := range blobUnits {
		if u.threshold == b.GetThreshold() && u.text != "" {
			unit = " " + u.text
		}
	}
	span := func(lower, upper *float64) string {
		switch {
		case lower == nil:
			return "<= " + number(*upper) + unit
		case upper == nil:
			return ">= " + number(*lower) + unit
		}
		return number(*lower) + " to " + number(*upper) + unit
	}
	parts := []string{}
	if b.Lower != nil || b.Upper != nil {
		parts = append(parts, span(b.Lower, b.Upper))
	}
	if b.StrongLower != nil || b.StrongUpper != nil {
		parts = append(parts, "strong "+span(b.StrongLower, b.StrongUpper))
	}
	if b.GetChannel() != 0 {
		parts = append(parts, "channel "+channelName(b.GetChannel()))
	}
	for _, s := range b.GetSteps() {
		for _, m := range morphs {
			if m.kind != s.GetKind() {
				continue
			}
			if s.GetRadius() > 0 {
				parts = append(parts, fmt.Sprintf("%s disc %d", m.name, s.GetRadius()))
			} else {
				parts = append(parts, fmt.Sprintf("%s %dx%d", m.name, s.GetWidth(), s.GetHeight()))
			}
		}
	}
	if n := b.GetMinArea(); n > 0 {
		parts = append(parts, fmt.Sprintf("min area %d", n))
	}
	if n := b.GetMaxBlobs(); n > 0 {
		parts = append(parts, fmt.Sprintf("most %d", n))
	}
	if b.GetOrder() == polyscanv1.BlobOrder_BLOB_ORDER_AREA {
		parts = append(parts, "by area")
	}
	if b.GetFourConnected() {
		parts = append(parts, "4-connected")
	}
	if b.GetContours() {
		parts = append(parts, "contours")
	}
	return strings.Join(parts, ", ")
}

// channelName is how the channel of a frame is spelled.
func channelName(c polyscanv1.Channel) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "CHANNEL_"))
}
