package regionfile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestJSONSyntax(t *testing.T) {
	cut := "malformed JSON: the file ends in the middle of a value, it may be truncated"
	testBad(t, []badFile{
		{"truncated array", "[\n {\"name\": \"a\",\n", Options{}, "line 2 column 15: " + cut, ErrSyntax},
		{"truncated string", `[{"name": "a`, Options{}, "line 1 column 13: " + cut, ErrSyntax},
		{"truncated literal", `[{"name": nul`, Options{}, "line 1 column 14: " + cut, ErrSyntax},
		{"truncated number", `[{"rings": [[[1, -`, Options{}, "line 1 column 19: " + cut, ErrSyntax},
		{"truncated object", `{"shapes"`, Options{}, "line 1 column 10: " + cut, ErrSyntax},
		{"only a bracket", "[", Options{}, "line 1 column 2: " + cut, ErrSyntax},
		{"space behind", "[  \n\n", Options{}, "line 1 column 2: " + cut, ErrSyntax},
		{"trailing comma", "[\n  {\"name\": \"ä\",}\n]", Options{},
			"line 2 column 16: malformed JSON: invalid character '}' looking for beginning of object key string",
			ErrSyntax},
		{"second value", "[]\n[]", Options{},
			"line 2 column 1: malformed JSON: invalid character '[' after top-level value", ErrSyntax},
		{"NaN", `[{"rings": [[[NaN, 0]]]}]`, Options{},
			"line 1 column 15: malformed JSON: invalid character 'N' looking for beginning of value (NaN and " +
				"Infinity are not JSON, and no coordinates)", ErrSyntax},
		{"Infinity", `[{"rings": [[[0, Infinity]]]}]`, Options{},
			"line 1 column 18: malformed JSON: invalid character 'I' looking for beginning of value (NaN and " +
				"Infinity are not JSON, and no coordinates)", ErrSyntax},
		{"-Infinity", `[{"rings": [[[0, -Infinity]]]}]`, Options{},
			"line 1 column 19: malformed JSON: invalid character 'I' in numeric literal (NaN and Infinity are not " +
				"JSON, and no coordinates)", ErrSyntax},
		{"control character", "[{\"name\": \"a\x01\"}]", Options{},
			`line 1 column 13: malformed JSON: invalid character '\x01' in string literal`, ErrSyntax},
		{"too deep", strings.Repeat("[", 20000), Options{},
			"line 1 column 10001: malformed JSON: invalid character '[' exceeded max depth", ErrSyntax},
	})
}

// value is any JSON value.
func value(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Map(rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', '{', ']', ',', ':', ' ', '\n', 'ü', '\u2028',
			'😀'})), func(s string) any { return s }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] {
			return value(depth - 1)
		}), 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.StringN(0, 3, -1), rapid.Deferred(func() *rapid.Generator[any] {
			return value(depth - 1)
		}), 0, 4), func(m map[string]any) any { return m }),
	)
}

// walk rebuilds a value with the cursor.
func walk(c *cursor) (any, error) {
	switch c.kind() {
	case kindObject:
		m := map[string]any{}
		for more := c.enter(); more; more = c.next() {
			k := c.key()
			v, err := walk(c)
			if err != nil {
				return nil, err
			}
			m[k] = v
		}
		return m, nil
	case kindArray:
		a := []any{}
		for more := c.enter(); more; more = c.next() {
			v, err := walk(c)
			if err != nil {
				return nil, err
			}
			a = append(a, v)
		}
		return a, nil
	case kindString:
		return c.text(), nil
	case kindNumber:
		v, e := c.number()
		if e != nil {
			return nil, e
		}
		return v, nil
	}
	switch lit := c.skipLiteral(); lit {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	default:
		return nil, fmt.Errorf("the literal %q", lit)
	}
}

// The cursor sees what encoding/json sees, with and without white space, and skipping a value ends where walking over
// it does.
func TestCursorAgainstEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(4).Draw(t, "value")
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indented") {
			doc, _ = json.MarshalIndent(v, " ", "\t")
		}
		var want any
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		c := &cursor{s: string(doc) + "  "}
		c.space()
		got, err := walk(c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s\n%s", doc, d)
		}
		s := &cursor{s: string(doc) + "  "}
		s.space()
		s.skip()
		if s.pos != c.pos {
			t.Fatalf("%s: skipping ends at %d, walking at %d", doc, s.pos, c.pos)
		}
	})
}

func TestCursorReplacesBadUTF8(t *testing.T) {
	c := &cursor{s: "\"a\xffb\""}
	if got := c.text(); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}
