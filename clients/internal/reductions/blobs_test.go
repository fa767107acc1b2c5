package reductions

import (
	"strings"
	"testing"
)

// TestBlobSpecs: what blobs are is read, and written as it is read.
func TestBlobSpecs(t *testing.T) {
	for _, text := range []string{
		">= 128", "<= 40", "40 to 90.5", ">= 99 %", "2 to 3.5 sd", "<= -2 sd",
		">= 100, strong >= 200", ">= 128, channel red, open 3x5, close disc 2, erode 1x9, dilate disc 31, min area 12, most 40, " +
			"by area, 4-connected, contours",
	} {
		b, err := ParseBlobs(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := FormatBlobs(b); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for text, why := range map[string]string{
		"":                             "want a range",
		"min area 3":                   "want a range",
		">= 3, min area 3, min area 4": "min area 4\": is said twice",
		">= 3, most 3, most 3":         "most 3\": is said twice",
		">= x":                         "want a range",
		"90 to 40":                     "must not be above",
		">= 3, <= 4":                   "a range already",
		">= 3 %, strong >= 200":        "in one unit",
		">= 3, open 4x3":               "both odd",
		">= 3, open 3x65":              "both odd",
		">= 3, erode disc 32":          "1 to 31",
		">= 3, min area few":           "whole number",
		">= 3, most 70000":             "to 65536",
		"<= 60, most 0":                "want most and a whole number from 1",
		"<= 60, min area 0":            "want min area and a whole number from 1 to 536870912",
		">= 3, channel r, channel g":   "channel g\": is said twice",
		">= 3, channel hue":            "want gray, r, g, b or a",
		">= 3, round":                  "want a range",
		">= 1e999":                     "want a range",
		">= 3,":                        "is empty",
		">= 3, close disc 2 please":    "both odd",
	} {
		if _, err := ParseBlobs(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}
