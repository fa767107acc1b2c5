// Package setting reads what the tags of a struct of settings say, so that each is declared once. The field gives the
// flag, the variable of the environment and the key of the file (see server/daemon), and its tags the rest:
//
//	default:"4MiB"  what 0 means
//	zero:"no end"   what 0 means where there is no default
//	min:"1MiB"      the least of other values; unless given 1 where there is a default, and 0 where there is none
//	max:"256"       the most, 2^31 for counts, 2^62 for sizes and any time unless given
//	type:"size"     an integer that counts bytes
//	type:"off"      a bool that is false where the setting is true: the zero value is on
//
// A struct within counts where it is anonymous or tagged `embed:""`, and a field that is tagged `kong:"-"` doesn't.
package setting

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/polyscan/polyscan/internal/digits"
)

// Field is a setting of a struct.
type Field struct {
	Path  string // from the struct, as Go writes it
	Name  string // of the flag, where a name tag gives it
	Tag   reflect.StructTag
	Value reflect.Value
}

// Fields are the settings of the struct that v points to, in order.
func Fields(v any) []Field { return fields(nil, "", "", reflect.ValueOf(v).Elem()) }

func fields(out []Field, path, prefix string, v reflect.Value) []Field {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		_, embed := t.Tag.Lookup("embed")
		switch at := path + t.Name; {
		case t.Tag.Get("kong") == "-" || !t.IsExported():
		case t.Type.Kind() == reflect.Struct && (embed || t.Anonymous):
			out = fields(out, at+".", prefix+t.Tag.Get("prefix"), v.Field(i))
		default:
			name := t.Tag.Get("name")
			if name == "" {
				name = dashed(t.Name)
			}
			out = append(out, Field{at, prefix + name, t.Tag, v.Field(i)})
		}
	}
	return out
}

// dashed is the flag that kong makes of a field's name, such as max-pixels of MaxPixels.
func dashed(name string) string {
	var b strings.Builder
	for i, r := range name {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('-')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Fill gives the fields that are 0 their defaults.
func Fill(v any) {
	for _, f := range Fields(v) {
		text := f.Tag.Get("default")
		if text == "" || !f.Value.IsZero() || f.Value.Kind() == reflect.Bool {
			continue
		}
		if f.Value.Kind() == reflect.String {
			f.Value.SetString(text)
			continue
		}
		f.Value.SetInt(f.number("default", 0))
	}
}

// Check looks at the bounds of numbers. Its error is a *BoundError.
func Check(v any) error { return check(v, func(Field) bool { return true }) }

// CheckFlags is Check for a struct whose defaults are filled in: a 0 where there is one was asked for, and is less than
// the least.
func CheckFlags(v any) error {
	return check(v, func(f Field) bool { return f.Tag.Get("default") == "" })
}

// check takes a 0 for the default where zero says so.
func check(v any, zero func(Field) bool) error {
	for _, f := range Fields(v) {
		if !f.Value.CanInt() {
			continue
		}
		least, most := f.Bounds()
		if n := f.Value.Int(); n < 0 || n > most || n < least && (n != 0 || !zero(f)) {
			e := &BoundError{Path: f.Path, Name: f.Name, Value: f.Format(n), Min: f.Format(least), zero: zero(f),
				zeroIs: f.Tag.Get("zero")}
			if most < maxSize {
				e.Max = f.Format(most)
			}
			return e
		}
	}
	return nil
}

// BoundError says which setting is out of its bounds.
type BoundError struct {
	Path, Name      string // as in [Field]
	Value, Min, Max string // Max is "" where any number does
	zero            bool   // 0 may be given
	zeroIs          string // what it stands for; "" is the default
}

func (e *BoundError) Error() string { return "Config." + e.Path + e.tail() }

// AsFlag is the error for users of the command line.
func (e *BoundError) AsFlag() string { return "--" + e.Name + e.tail() }

func (e *BoundError) tail() string {
	want := e.Min + " to " + e.Max
	if e.Max == "" {
		want = "at least " + e.Min
	}
	if e.zero && strings.Trim(e.Min, "0s") != "" {
		want += ", or 0 for " + cmp.Or(e.zeroIs, "the default")
	}
	return fmt.Sprintf(" = %s: must be %s", e.Value, want)
}

// Bounds are the least and the most that a number may be, beside 0.
func (f Field) Bounds() (least, most int64) {
	most = 1 << 31
	switch {
	case f.Value.Type() == reflect.TypeFor[time.Duration]():
		most = math.MaxInt64
	case f.Tag.Get("type") == "size":
		most = maxSize
	}
	if f.Tag.Get("default") != "" {
		least = 1
	}
	return f.number("min", least), f.number("max", most)
}

// Format writes a value of the setting as its default and its bounds are written.
func (f Field) Format(n int64) string {
	switch {
	case f.Value.Type() == reflect.TypeFor[time.Duration]():
		return time.Duration(n).String()
	case f.Tag.Get("type") == "size":
		return FormatSize(n)
	}
	return strconv.FormatInt(n, 10)
}

// number reads a tag that holds a value of the setting. A tag that holds none is a bug of this module's.
func (f Field) number(tag string, otherwise int64) (n int64) {
	text, ok := f.Tag.Lookup(tag)
	if !ok {
		return otherwise
	}
	var err error
	switch {
	case f.Value.Type() == reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = time.ParseDuration(text)
		n = int64(d)
	case f.Tag.Get("type") == "size":
		n, err = ParseSize(text)
	default:
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", f.Path, tag, err))
	}
	return n
}

// maxSize is more than any machine has, and less than what sums of a few sizes overflow at.
const maxSize = 1 << 62

var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1},
}

// ParseSize reads a number of bytes, with a unit or without. 3g are 3 GiB, as for systemd and container tools; the
// libraries for sizes (go-humanize, alecthomas/units) take them for 3 GB or don't know them, and round what they write.
func ParseSize(text string) (int64, error) {
	s, unit := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := digits.Float(s)
	v *= unit
	if err != nil || !(v >= 0) || v > maxSize || unit == 1 && v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a size; want a number with KiB, MiB, GiB, KB, MB, GB or nothing behind it", text)
	}
	return int64(v), nil
}

// FormatSize writes a size exactly, so that ParseSize reads it again.
func FormatSize(n int64) string {
	for i, name := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if shift := 40 - 10*i; n != 0 && n>>shift<<shift == n {
			return strconv.FormatInt(n>>shift, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}
