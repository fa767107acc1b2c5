// Command longtests prints the tests of a package that do more without -short, as a pattern for go test -run.
//
//	longtests DIR...
//
// A test does more if it asks testing.Short, or calls a function or method of its package's tests that does, however
// far down. Names alone decide, so a test too many may be in it, never one too few. For each folder there is a line:
// the folder and the pattern. A folder without such a test has no line.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: longtests DIR...")
		os.Exit(2)
	}
	for _, dir := range os.Args[1:] {
		tests, err := long(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "longtests:", err)
			os.Exit(1)
		}
		if len(tests) > 0 {
			fmt.Printf("%s ^(%s)$\n", dir, strings.Join(tests, "|"))
		}
	}
}

// long returns the names of the tests of a folder that do more without -short, in alphabetical order.
func long(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	uses := map[string]map[string]bool{} // what each function, method or variable names
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(uses, d.Name.Name, d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							add(uses, n.Name, v)
						}
					}
				}
			}
		}
	}
	const short = "testing.Short"
	asks := map[string]bool{short: true}
	for grown := true; grown; {
		grown = false
		for name, used := range uses {
			if asks[name] {
				continue
			}
			for u := range used {
				if asks[u] {
					asks[name], grown = true, true
					break
				}
			}
		}
	}
	var tests []string
	for name := range asks {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests, nil
}

// add notes each name within n as used by name, and testing.Short as one name.
func add(uses map[string]map[string]bool, name string, n ast.Node) {
	used := uses[name]
	if used == nil {
		used = map[string]bool{}
		uses[name] = used
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "testing" {
				used["testing."+n.Sel.Name] = true
				return false
			}
		case *ast.Ident:
			if n.Name != name {
				used[n.Name] = true
			}
		}
		return true
	})
}
