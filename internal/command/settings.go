package command

// Settings of a file: flags by their names.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Setting is a flag's value in a file and its line: as one text where it stands once on the command line, and one by
// one where the flag is given more than once.
type Setting struct {
	Text  string
	Items []string
	Line  int
}

// mistake names file and line.
func mistake(name string, n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", name, n.Line, fmt.Sprintf(format, args...))
}

// Document reads the one document of a YAML file; nil where nothing but comments is in it. Errors name the file.
func Document(name string, text []byte) (*yaml.Node, error) {
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(name, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, mistake(name, &second, "a second document; want one mapping of settings to values")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntax(name, err)
	}
	return doc.Content[0], twice(name, &doc)
}

// syntax names file and line of an error of the YAML library.
func syntax(name string, err error) error {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if where, what, ok := strings.Cut(text, ": "); ok {
		if _, err := fmt.Sscanf(where, "line %d", &line); err == nil {
			text = what
		}
	}
	return mistake(name, &yaml.Node{Line: line}, "%s", text)
}

// twice refuses a key that a mapping has two times: the first value would be dropped in silence.
func twice(name string, n *yaml.Node) error {
	lines := map[string]int{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode {
			if first := lines[c.Value]; first > 0 {
				return mistake(name, c, "%s is set a second time, first in line %d", c.Value, first)
			}
			lines[c.Value] = c.Line
		}
		if err := twice(name, c); err != nil {
			return err
		}
	}
	return nil
}

// Settings reads a mapping of flags' names to values, and checks that the flags take them. Errors name file, line and
// key.
func Settings(name string, root *yaml.Node, flags []*kong.Flag) (map[string]Setting, error) {
	values := map[string]Setting{}
	if root.Kind != yaml.MappingNode {
		return nil, mistake(name, root, "want a mapping of settings to values, as KEY: VALUE")
	}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == key.Value })
		if i < 0 {
			return nil, mistake(name, key, "%q is not a setting", key.Value)
		}
		v, err := decode(value, flags[i])
		if err != nil {
			return nil, mistake(name, key, "%s: %v", key.Value, err)
		}
		v.Line = key.Line
		values[key.Value] = v
	}
	return values, nil
}

// decode turns a node into what the flag takes, and checks that it does.
func decode(n *yaml.Node, f *kong.Flag) (Setting, error) {
	var items []string
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return Setting{}, errors.New("the value is missing")
	case n.Kind == yaml.ScalarNode:
		items = []string{n.Value}
	case n.Kind == yaml.SequenceNode && f.IsSlice():
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return Setting{}, fmt.Errorf("item %d is not a plain value", len(items)+1)
			}
			items = append(items, item.Value)
		}
		if len(items) == 0 {
			return Setting{}, errors.New("the list is empty")
		}
	default:
		want := "one value"
		if f.IsSlice() {
			want = "a value, or a list of values"
		}
		return Setting{}, fmt.Errorf("want %s", want)
	}
	if isNumber(f) {
		for _, item := range append([]*yaml.Node{n}, n.Content...) {
			if item.Value != "" && item.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				return Setting{}, fmt.Errorf("%q in quotes is a text: want a number", item.Value)
			}
		}
	}
	if f.Default != "" && slices.Contains(items, "") { // where it means nothing, it would be taken for the default
		return Setting{}, errors.New("the value is empty")
	}
	text, each := items[0], items[:1]
	switch {
	case f.IsSlice() && f.Tag.Sep == -1:
		each = items
	case f.IsSlice() && f.Target.Type().Elem().Kind() == reflect.String:
		text = kong.JoinEscaped(items, f.Tag.Sep)
		each = []string{text}
	case f.IsSlice():
		text = strings.Join(items, string(f.Tag.Sep))
		each = []string{text}
	}
	if enum := f.EnumSlice(); f.Enum != "" && !slices.Contains(enum, text) {
		return Setting{}, fmt.Errorf("%q is not one of %s", text, strings.Join(enum, ", "))
	}
	for _, text := range each {
		scan := kong.Scan().PushTyped(text, kong.FlagValueToken)
		err := f.Mapper.Decode(&kong.DecodeContext{Value: f.Value, Scan: scan}, reflect.New(f.Target.Type()).Elem())
		if err != nil {
			return Setting{}, errors.New(Words(err))
		}
	}
	return Setting{Text: text, Items: each}, nil
}

// isNumber reports whether a flag holds numbers without a unit.
func isNumber(f *kong.Flag) bool {
	t := f.Target.Type()
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Float64 && t.PkgPath() == "" && f.Tag.Type == ""
}
