// Command house measures how heavy the tree is, and fails where a number is worse than its bound: so that weight which
// was taken off doesn't come back unseen.
//
//	house [-print] [ROOT]
//
// ROOT is a checkout of the repository, by default the working directory. With -print nothing fails. The bounds are in
// the table rows, below. A bound that is looser than what is measured should be lowered to it; house says which.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A row is one measure. Files are those that git knows or would add.
type row struct {
	name    string
	bound   int
	measure func(*tree) int
}

var rows = []row{
	{"methods of the driver's interfaces", 17, driverMethods},
	{"Go and CUDA files that mention HullCompletion", 12, mentionHull},
	{"functions and tables that hold MaxSide", 5, sideChecks},
	{"definitions of InvalidError", 1, invalidErrors},
	{"structs that embed *Server", 0, embedServer},
	{"non-test files in package server", 13, serverFiles},
	{"exported symbols of what users import", 1094, exportedSymbols},
	{"hand-written layout lines of kernels/cuda", 0, layoutLines},
	{"Go lines over 140 columns", 0, longLines},
	{"words of README.md", 1300, readmeWords},
	{"lines of README.md", 150, readmeLines},
	{"lines of product Go", 137585, productLines},
}

func main() {
	printOnly := flag.Bool("print", false, "print the table and fail for nothing")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(root, rows, *printOnly, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// run measures all rows, prints them, and returns an error that names those over their bounds.
func run(root string, rows []row, printOnly bool, out io.Writer) error {
	t, err := readTree(root)
	if err != nil {
		return err
	}
	var over []string
	fmt.Fprintf(out, "%-46s %8s %8s\n", "", "measured", "at most")
	for _, r := range rows {
		n := r.measure(t)
		remark := ""
		switch {
		case n > r.bound:
			remark = "  over"
			over = append(over, fmt.Sprintf("%s: %d, at most %d", r.name, n, r.bound))
		case n < r.bound:
			remark = "  the bound can be lowered"
		}
		if printOnly {
			remark = ""
		}
		fmt.Fprintf(out, "%-46s %8d %8d%s\n", r.name, n, r.bound, remark)
	}
	if len(over) > 0 && !printOnly {
		return errors.New(strings.Join(over, "; "))
	}
	return nil
}

// A tree is the text of each .go, .cu, .cuh and .md file, by its slash-separated path from the root, and the syntax of
// the .go files.
type tree struct {
	text map[string][]byte
	code map[string]*ast.File
}

func readTree(root string) (*tree, error) {
	names, err := listFiles(root)
	if err != nil {
		return nil, err
	}
	t := &tree{map[string][]byte{}, map[string]*ast.File{}}
	for _, name := range names {
		switch path.Ext(name) {
		case ".go", ".cu", ".cuh", ".md":
		default:
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, os.ErrNotExist) { // removed and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		t.text[name] = text
		if path.Ext(name) == ".go" {
			f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			t.code[name] = f
		}
	}
	if len(t.code) == 0 {
		return nil, fmt.Errorf("%s: no Go file", root)
	}
	return t, nil
}

// listFiles asks git for the files of the tree, those not yet added included.
func listFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", root, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

func (t *tree) isGenerated(name string) bool { return ast.IsGenerated(t.code[name]) }

// isProduct reports whether a Go file is part of what users run: no test, no helper of tests, nothing generated, no
// tool of ours.
func (t *tree) isProduct(name string) bool {
	for _, dir := range []string{"tools/", "testdata/", "internal/devicetest/", "internal/shorttest/",
		"internal/pictures/picturetest/", "server/internal/servertest/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return path.Ext(name) == ".go" && !isTest(name) && !t.isGenerated(name)
}

func lines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// optional interfaces are those that a backend may leave out.
var optional = []string{"HostRegistrar", "Timer"}

// driverMethods counts the methods of the interfaces of kernels/driver, but for those that a backend may leave out.
func driverMethods(t *tree) (n int) {
	for name, f := range t.code {
		if path.Dir(name) != "kernels/driver" || isTest(name) {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() || slices.Contains(optional, spec.Name.Name) {
				return true
			}
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					n += len(m.Names)
				}
			}
			return true
		})
	}
	return n
}

func mentionHull(t *tree) (n int) {
	for name, text := range t.text {
		if path.Ext(name) != ".md" && !strings.HasPrefix(name, "tools/") && bytes.Contains(text, []byte("HullCompletion")) {
			n++
		}
	}
	return n
}

// sideChecks counts the functions and tables of product code that hold the constant MaxSide: each is a check, or a
// bound that a check takes from it.
func sideChecks(t *tree) (n int) {
	for name, f := range t.code {
		if !t.isProduct(name) {
			continue
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.VAR {
				continue
			}
			found := false
			ast.Inspect(d, func(node ast.Node) bool {
				if id, ok := node.(*ast.Ident); ok && id.Name == "MaxSide" {
					found = true
				}
				return !found
			})
			if found {
				n++
			}
		}
	}
	return n
}

func invalidErrors(t *tree) (n int) {
	for name, f := range t.code {
		if isTest(name) {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if s, ok := node.(*ast.TypeSpec); ok && s.Name.Name == "InvalidError" && !s.Assign.IsValid() {
				n++
			}
			return true
		})
	}
	return n
}

func embedServer(t *tree) (n int) {
	for name, f := range t.code {
		if isTest(name) || !strings.HasPrefix(name, "server/") {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			s, ok := node.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				star, ok := field.Type.(*ast.StarExpr)
				if !ok || len(field.Names) > 0 {
					continue
				}
				typ := star.X
				if q, ok := typ.(*ast.SelectorExpr); ok {
					if of, ok := q.X.(*ast.Ident); ok && of.Name == "server" {
						typ = q.Sel
					}
				}
				if id, ok := typ.(*ast.Ident); ok && id.Name == "Server" {
					n++
				}
			}
			return true
		})
	}
	return n
}

func serverFiles(t *tree) (n int) {
	for name := range t.code {
		if path.Dir(name) == "server" && !isTest(name) {
			n++
		}
	}
	return n
}

// imported are the packages that programs of users import.
var imported = []string{"clients", "clients/curvefile", "clients/regionfile", "diffusion", "kernels", "kernels/driver",
	"lowpoly", "polygon", "server", "server/daemon"}

// exportedSymbols counts what those packages export: types, functions, constants and variables, methods of exported
// types, and the methods of exported interfaces. Files are taken whatever their build constraints, and a name that
// several of them define counts once. Fields are not counted: a struct that says more with one more field is not
// heavier to learn than a function is.
func exportedSymbols(t *tree) int {
	seen := map[string]bool{}
	for name, f := range t.code {
		dir := path.Dir(name)
		if !slices.Contains(imported, dir) || isTest(name) || f.Name.Name == "main" {
			continue
		}
		add := func(names ...string) {
			for _, n := range names {
				if !ast.IsExported(n) {
					return
				}
			}
			seen[dir+"."+strings.Join(names, ".")] = true
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				} else {
					add(receiver(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id.Name)
						}
					case *ast.TypeSpec:
						add(s.Name.Name)
						i, ok := s.Type.(*ast.InterfaceType)
						if !ok {
							continue
						}
						for _, m := range i.Methods.List {
							for _, id := range m.Names {
								add(s.Name.Name, id.Name)
							}
						}
					}
				}
			}
		}
	}
	return len(seen)
}

// receiver is the name of a method's type, without its star and its type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	}
	return ""
}

// layoutLines counts the lines of kernels/cuda that mirror structs of the kernels by hand.
func layoutLines(t *tree) (n int) {
	for name, text := range t.text {
		if path.Dir(name) == "kernels/cuda" && !isTest(name) && !t.isGenerated(name) &&
			(strings.HasSuffix(name, "_layout.go") || path.Base(name) == "layout.go") {
			n += lines(text)
		}
	}
	return n
}

// longLines counts lines of more than 140 bytes, a tab being one, as awk does in the locale C.
func longLines(t *tree) (n int) {
	for name := range t.code {
		if t.isGenerated(name) {
			continue
		}
		for line := range bytes.Lines(t.text[name]) {
			if len(bytes.TrimRight(line, "\n")) > 140 {
				n++
			}
		}
	}
	return n
}

func readmeWords(t *tree) int { return len(bytes.Fields(t.text["README.md"])) }

func readmeLines(t *tree) int { return lines(t.text["README.md"]) }

func productLines(t *tree) (n int) {
	for name := range t.code {
		if t.isProduct(name) {
			n += lines(t.text[name])
		}
	}
	return n
}
