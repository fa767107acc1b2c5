// Command kernelabi writes the Go side of what host and kernels agree on: structs with their offsets and sizes,
// parameters of kernels, and constants. It reads no C: a C++ compiler compiles the headers with debugging information,
// and that says where each member lies.
//
//	kernelabi HEADERS DRIVER FILE
//
// HEADERS is the folder kernels/cu/abi, DRIVER that of package driver, FILE what is written. The rules:
//
//   - BoxLevel is boxLevel in Go, box_level a member BoxLevel, BOX_LEVELS the constant boxLevels, and the size of
//     BoxLevel boxLevelBytes. Pointers are uint64, members called pad are blank.
//   - The kernel diffusion_box_down is boxDown: without what begins the names of a family. Its type names its
//     parameters, which are the struct itself where it takes a single one, and else boxDownParams. Kernels of one
//     header with the same parameters share the type of the first.
//   - What package driver exports under the same name is not declared again: the build fails where it differs.
package main

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: kernelabi HEADERS DRIVER FILE")
		os.Exit(2)
	}
	text, err := generate(os.Args[1], os.Args[2])
	if err == nil {
		err = os.WriteFile(os.Args[3], text, 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kernelabi:", err)
		os.Exit(1)
	}
}

func generate(headers, driver string) ([]byte, error) {
	exported, err := exports(driver)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(headers, "*.cuh"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no header", headers)
	}
	data, err := compile(files)
	if err != nil {
		return nil, err
	}
	w := &writer{exported: exported, seen: map[string]string{}}
	if err := w.read(data); err != nil {
		return nil, err
	}
	return w.source()
}

// exports returns the names that package driver declares.
func exports(folder string) (map[string]bool, error) {
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: declares nothing", folder)
	}
	return names, nil
}

// define matches a macro that stands for a value.
var define = regexp.MustCompile(`(?m)^#define ([A-Z]\w*) `)

// compile returns the debugging information of the headers. Macros leave none, so each becomes an enumerator; those of
// floats are the kernels' own and left out.
func compile(files []string) (*dwarf.Data, error) {
	var unit strings.Builder
	macros := ""
	for _, name := range files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&unit, "#include %q\n", path)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, m := range define.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(macros, "("+m[1]+")") {
				macros += fmt.Sprintf("VALUE(%s)\n", m[1])
			}
		}
	}
	unit.WriteString(`
template <class T> struct integer { enum { is = (T)0.5 == 0 }; };
#define VALUE(name) enum { is_##name = integer<decltype(name)>::is, value_##name = (long long)(name) };
` + macros)
	tmp, err := os.MkdirTemp("", "kernelabi")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	object := filepath.Join(tmp, "abi.o")
	cc := os.Getenv("CXX")
	if cc == "" {
		cc = "gcc" // with -x c++ it needs no driver of its own
	}
	c := exec.Command(cc, "-x", "c++", "-std=c++14", "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-m64", "-c",
		"-o", object, "-")
	c.Stdin = strings.NewReader(unit.String())
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cc, err, &out)
	}
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.DWARF()
}

// writer collects the declarations.
type writer struct {
	exported map[string]bool
	seen     map[string]string // of Go names, what they stand for

	structs, constants, checks []string
	kernels                    []kernel
}

// kernel is a kernel, where it is declared, and its parameters.
type kernel struct {
	file    string
	line    int64
	name    string
	members []member
	size    int64
}

// name notes a Go name, which has to be the only one.
func (w *writer) name(name, of string) error {
	if was, ok := w.seen[name]; ok && was != of {
		return fmt.Errorf("%s: both of %s and of %s", name, was, of)
	}
	w.seen[name] = of
	return nil
}

func (w *writer) read(data *dwarf.Data) error {
	integers := map[string]bool{}
	r := data.Reader()
	var files []*dwarf.LineFile
	for {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil {
			return nil
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			lines, err := data.LineReader(e)
			if err != nil {
				return err
			}
			files = lines.Files()
		case dwarf.TagStructType:
			t, err := data.Type(e.Offset)
			if err != nil {
				return err
			}
			s := t.(*dwarf.StructType)
			if s.Incomplete || strings.Contains(s.StructName, "<") || builtin.MatchString(s.StructName) {
				continue
			}
			if err := w.structure(s); err != nil {
				return fmt.Errorf("struct %s: %w", s.StructName, err)
			}
		case dwarf.TagEnumerator:
			name, _ := e.Val(dwarf.AttrName).(string)
			value, _ := e.Val(dwarf.AttrConstValue).(int64)
			if n, ok := strings.CutPrefix(name, "is_"); ok {
				integers[n] = value == 1
			} else if n, ok := strings.CutPrefix(name, "value_"); ok && integers[n] {
				if err := w.constant(n, value); err != nil {
					return err
				}
			}
		case dwarf.TagSubprogram:
			file, _ := e.Val(dwarf.AttrDeclFile).(int64)
			base := strings.TrimSuffix(filepath.Base(files[file].Name), ".cuh")
			k, err := w.kernel(data, r, base, e)
			if err != nil {
				return fmt.Errorf("kernel %s: %w", k.name, err)
			}
			w.kernels = append(w.kernels, k)
		}
	}
}

// builtin matches CUDA's own vectors.
var builtin = regexp.MustCompile(`^u?(int|float)\d$`)

// camel makes a Go name of one with underscores.
func camel(s string, export bool) string {
	out := ""
	for _, word := range strings.Split(strings.ToLower(s), "_") {
		switch {
		case word == "":
		case out == "" && !export:
			out = word
		case word == "id", word == "xy", word == "xx", word == "yy", word == "vx", word == "vy", word == "hm":
			out += strings.ToUpper(word)
		case word == "ids0", word == "ids1":
			out += "IDs" + word[3:]
		default:
			out += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return out
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// member is a part of a struct.
type member struct {
	name   string
	typ    dwarf.Type
	offset int64
}

// goType is how Go declares a type, and how it is aligned there.
func (w *writer) goType(t dwarf.Type) (name string, align int64, err error) {
	switch t := t.(type) {
	case *dwarf.QualType:
		return w.goType(t.Type)
	case *dwarf.TypedefType:
		if t.Name == "Item" { // the one integer that has methods in Go
			return "item", 8, nil
		}
		return w.goType(t.Type)
	case *dwarf.PtrType:
		return "uint64", 8, nil
	case *dwarf.UcharType:
		return "uint8", 1, nil
	case *dwarf.UintType:
		return fmt.Sprintf("uint%d", 8*t.ByteSize), t.ByteSize, nil
	case *dwarf.IntType:
		return fmt.Sprintf("int%d", 8*t.ByteSize), t.ByteSize, nil
	case *dwarf.FloatType:
		return fmt.Sprintf("float%d", 8*t.ByteSize), t.ByteSize, nil
	case *dwarf.ArrayType:
		name, align, err = w.goType(t.Type)
		return fmt.Sprintf("[%d]%s", t.Count, name), align, err
	case *dwarf.StructType:
		if t.Kind != "struct" {
			break
		}
		if builtin.MatchString(t.StructName) {
			kind := map[byte]string{'i': "int32", 'u': "uint32", 'f': "float32"}[t.StructName[0]]
			return fmt.Sprintf("[%d]%s", t.ByteSize/4, kind), 4, nil
		}
		align = 1
		for _, f := range t.Field {
			_, a, err := w.goType(f.Type)
			if err != nil {
				return "", 0, err
			}
			align = max(align, a)
		}
		if w.exported[t.StructName] {
			return "driver." + t.StructName, align, nil
		}
		return lower(t.StructName), align, nil
	}
	return "", 0, fmt.Errorf("%s: a type that has no place in the ABI", t)
}

// body is the members of a Go struct of a size. It fails where Go would lay them out otherwise.
func (w *writer) body(members []member, size int64) (string, error) {
	var out strings.Builder
	at, most := int64(0), int64(1)
	for _, m := range members {
		typ, align, err := w.goType(m.typ)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
		most = max(most, align)
		if at = (at + align - 1) / align * align; at != m.offset {
			return "", fmt.Errorf("%s: is at %d, in Go at %d: put a pad before it", m.name, m.offset, at)
		}
		at += m.typ.Size()
		name := camel(m.name, true)
		if m.name == "pad" {
			name = "_"
		}
		fmt.Fprintf(&out, "\t%s %s\n", name, typ)
	}
	if at != size || size%most != 0 {
		return "", fmt.Errorf("members end at %d of %d bytes: fill it with a pad", at, size)
	}
	return out.String(), nil
}

func (w *writer) structure(s *dwarf.StructType) error {
	members := make([]member, len(s.Field))
	for i, f := range s.Field {
		members[i] = member{f.Name, f.Type, f.ByteOffset}
	}
	name := lower(s.StructName)
	if err := errors.Join(w.name(name, s.StructName), w.name(name+"Bytes", "the size of "+s.StructName)); err != nil {
		return err
	}
	w.constants = append(w.constants, fmt.Sprintf("%sBytes = %d\n", name, s.ByteSize))
	if w.exported[s.StructName] {
		w.check("unsafe.Sizeof(driver."+s.StructName+"{})", s.ByteSize)
		for _, m := range members {
			if m.name != "pad" {
				f := "driver." + s.StructName + "{}." + camel(m.name, true)
				w.check("unsafe.Offsetof("+f+")", m.offset)
				w.check("unsafe.Sizeof("+f+")", m.typ.Size())
			}
		}
		return nil
	}
	body, err := w.body(members, s.ByteSize)
	w.structs = append(w.structs, fmt.Sprintf("type %s struct {\n%s}\n\n", name, body))
	return err
}

// check makes the Go build fail unless an expression has a value.
func (w *writer) check(expression string, value int64) {
	w.checks = append(w.checks, fmt.Sprintf("_ [%s]byte = [%d]byte{}\n", expression, value))
}

func (w *writer) constant(name string, value int64) error {
	if public := camel(name, true); w.exported[public] {
		w.check("driver."+public, value)
		return nil
	}
	if err := w.name(camel(name, false), name); err != nil {
		return err
	}
	w.constants = append(w.constants, fmt.Sprintf("%s = %d\n", camel(name, false), value))
	return nil
}

// family is how names of kernels begin that belong together; Go has no use for it.
var family = regexp.MustCompile(`^(diffusion|mask)_`)

// kernel reads the parameters, which follow in r. As those of a C function they are in no struct: CUDA lays them out
// like one.
func (w *writer) kernel(data *dwarf.Data, r *dwarf.Reader, file string, e *dwarf.Entry) (kernel, error) {
	k := kernel{file: file}
	k.name, _ = e.Val(dwarf.AttrName).(string)
	k.line, _ = e.Val(dwarf.AttrDeclLine).(int64)
	for {
		p, err := r.Next()
		if err != nil || p.Tag != dwarf.TagFormalParameter {
			return k, err
		}
		t, err := data.Type(p.Val(dwarf.AttrType).(dwarf.Offset))
		if err != nil {
			return k, err
		}
		_, align, err := w.goType(t)
		if err != nil {
			return k, err
		}
		k.size = (k.size + align - 1) / align * align
		k.members = append(k.members, member{p.Val(dwarf.AttrName).(string), t, k.size})
		k.size += t.Size()
	}
}

// launches writes the types of parameters, the kernels and their names. Kernels come in the order of their
// declarations.
func (w *writer) launches() (params, kernels, names string, err error) {
	slices.SortFunc(w.kernels, func(a, b kernel) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	types := map[[2]string]string{} // by file and members
	for i, k := range w.kernels {
		body, err := w.body(k.members, k.size)
		if err != nil {
			return "", "", "", fmt.Errorf("kernel %s: %w", k.name, err)
		}
		short := camel(family.ReplaceAllString(k.name, ""), false)
		if err := w.name(short, k.name); err != nil {
			return "", "", "", err
		}
		key := [2]string{k.file, body}
		if s, ok := k.members[0].typ.(*dwarf.StructType); ok && len(k.members) == 1 {
			types[key] = lower(s.StructName)
		} else if types[key] == "" {
			types[key] = short + "Params"
			if err := w.name(short+"Params", "the parameters of "+k.name); err != nil {
				return "", "", "", err
			}
			params += fmt.Sprintf("type %sParams struct {\n%s}\n\n", short, body)
		}
		kernels += fmt.Sprintf("%s kernelFor[%s] = %d\n", short, types[key], i)
		names += fmt.Sprintf("{%q, %q},\n", k.file, k.name)
	}
	return params, kernels, names, nil
}

// source is the file. What no order is asked of is sorted, as compilers differ in theirs.
func (w *writer) source() ([]byte, error) {
	if len(w.kernels) == 0 {
		return nil, errors.New("no kernel")
	}
	params, kernels, names, err := w.launches()
	if err != nil {
		return nil, err
	}
	sorted := func(s []string) string { slices.Sort(s); return strings.Join(s, "") }
	return format.Source(fmt.Appendf(nil, `// Code generated by tools/kernelabi from kernels/cu/abi. DO NOT EDIT.

//lint:file-ignore U1000 some are used under the tag cuda, some by kernels alone

package cuda

import (
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
%s)

%s// Parameters of kernels, as they lie in memory.

%s// The kernels, with the types of their parameters.
const (
%s)

// kernelNames are the files and names of kernels.
var kernelNames = [...]kernelName{
%s}

// What has the same name in package driver is the same.
var (
%s)
`, sorted(w.constants), sorted(w.structs), params, kernels, names, sorted(w.checks)))
}
