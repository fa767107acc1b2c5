package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
)

// Comments makes the comment above a field the help of its flag or argument where that has no help tag. The sources
// hold the Go files of the structs, at their top; they are read once help is asked for.
func Comments(sources ...fs.FS) kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		help := Help(sources...)
		return kong.ValueFormatter(func(v *kong.Value) string {
			with := *v
			with.Help = help(k.Model, v)
			return kong.DefaultHelpValueFormatter(&with)
		}).Apply(k)
	})
}

// Help returns what gives the help of a flag or argument, as [Comments] shows it: the first paragraph of the comment,
// and the default where a placeholder stands in its place.
func Help(sources ...fs.FS) func(*kong.Application, *kong.Value) string {
	texts := sync.OnceValue(func() map[string]string { return readComments(sources) })
	return func(app *kong.Application, v *kong.Value) string {
		text := v.Help
		if text == "" {
			text = texts()[fieldName(app.Target, v.Target)]
		}
		text = strings.ReplaceAll(text, "${enum}", v.Enum)
		if v.HasDefault && v.Default != "" && v.Flag != nil && v.Flag.PlaceHolder != "" {
			text += " Default: " + v.Default + "."
		}
		return text
	}
}

// readComments returns the first paragraphs of the comments above the fields of structs, by package, type and field.
// Sources are compiled into the program, so that errors are left to the tests that look for missing texts.
func readComments(sources []fs.FS) map[string]string {
	out := map[string]string{}
	for _, source := range sources {
		names, _ := fs.Glob(source, "*.go")
		for _, name := range names {
			text, _ := fs.ReadFile(source, name)
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				t, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				s, ok := t.Type.(*ast.StructType)
				if !ok {
					return true
				}
				for _, f := range s.Fields.List {
					first, _, _ := strings.Cut(f.Doc.Text(), "\n\n")
					for _, name := range f.Names {
						out[file.Name.Name+"."+t.Name.Name+"."+name.Name] = strings.Join(strings.Fields(first), " ")
					}
				}
				return true
			})
		}
	}
	return out
}

// fieldName finds the field of a struct, or of a struct in it, that is the target: package, type and field, or "".
func fieldName(v, target reflect.Value) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return ""
	}
	for i := range v.NumField() {
		f := v.Field(i)
		if f.CanAddr() && f.Addr().Pointer() == target.Addr().Pointer() && f.Type() == target.Type() {
			return v.Type().String() + "." + v.Type().Field(i).Name
		}
		if name := fieldName(f, target); name != "" {
			return name
		}
	}
	return ""
}
