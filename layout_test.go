package polyscan_test

// Who may import whom. Every .go file of the tree is read, whatever its build
// constraints, so that a rule holds for the cuda build on machines that can't
// build it. Each rule carries import graphs that it must report and graphs
// that it must not: a rule that can't fail is no rule.

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/polyscan/polyscan"

// An edge says that a file of package pkg imports path. Packages of this
// module are named by their folder ("kernels/cpu", "." for the root), others
// by their import path.
type edge struct {
	pkg, path string
	file      string // the importing file, relative to the root
	test      bool   // it is a _test.go file
}

// A graph is all edges of a tree, and which of the paths are folders of it.
type graph struct {
	edges []edge
	ours  map[string]bool
}

// A rule looks at one importing package at a time.
type rule struct {
	name string
	why  string

	in    func(pkg string) bool // the importing packages it is about
	tests bool                  // it binds their _test.go files too

	// deny selects what from, one of those packages, must not import. deep
	// also follows what the imported packages of ours import outside their
	// tests, so that a detour over a third package is found.
	deny func(from, path string, ours bool) bool
	deep bool

	// Import graphs, each a " + " joined list of "importer path", with
	// "importer_test" for a test file.
	bad, good []string
}

var (
	domains  = []string{"polygon", "lowpoly", "diffusion"}
	backends = []string{"kernels/cpu", "kernels/cuda"}
)

const binding = "gorgonia.org/cu"

// The rooms of the server. Those at the bottom serve several others; each of the rest serves one part of the protocol.
const (
	rooms      = "server/internal"
	serverTest = rooms + "/servertest" // helpers of tests
)

var bottomRooms = []string{
	rooms + "/apierr", rooms + "/auth", rooms + "/budget", rooms + "/device", rooms + "/events", rooms + "/frames",
	rooms + "/framestream", rooms + "/hostwork", rooms + "/locate", rooms + "/network", rooms + "/observe", rooms + "/setting",
	rooms + "/wire",
}

var rules = []rule{
	{
		name:  "the CUDA binding stays in kernels/cuda",
		why:   "it exits the process in init where there is no GPU, and it must stay replaceable",
		in:    func(pkg string) bool { return !under(pkg, "kernels/cuda") },
		tests: true,
		deny:  func(_, p string, _ bool) bool { return under(p, binding) },
		bad: []string{
			"kernels gorgonia.org/cu",
			"kernels_test gorgonia.org/cu",
			"kernels/cpu gorgonia.org/cu/dnn",
			"server/drivers gorgonia.org/cu",
			"kernels/cudatools gorgonia.org/cu",
		},
		good: []string{
			"kernels/cuda gorgonia.org/cu",
			"kernels/cuda_test gorgonia.org/cu",
			"polygon gorgonia.org/cuckoo",
		},
	},
	{
		name:  "cgo stays in kernels/cuda",
		why:   "everything else builds with nothing but Go",
		in:    func(pkg string) bool { return !under(pkg, "kernels/cuda") },
		tests: true,
		deny:  func(_, p string, _ bool) bool { return p == "C" },
		bad:   []string{"kernels/cpu C", "polygon_test C", ". C"},
		good:  []string{"kernels/cuda C"},
	},
	{
		name: "only server/drivers imports kernels/cuda",
		why:  "one place decides which backends a build has",
		in:   func(pkg string) bool { return pkg != "server/drivers" && !under(pkg, "kernels/cuda") },
		deny: func(_, p string, _ bool) bool { return under(p, "kernels/cuda") },
		bad: []string{
			"server kernels/cuda",
			"clients/polyscan kernels/cuda",
			"kernels kernels/cuda",
			"server/drivers/extra kernels/cuda",
		},
		good: []string{
			"server/drivers kernels/cuda",
			"internal/devicetest_test kernels/cuda",
			"server server/drivers + server/drivers kernels/cuda",
		},
	},
	{
		name: "the protocols of cameras import nothing of ours but each other",
		why:  "packets and features are read without knowing of servers and parts",
		in:   func(pkg string) bool { return under(pkg, "clients/camera/internal") },
		deny: func(_, p string, ours bool) bool { return ours && !under(p, "clients/camera/internal") },
		deep: true,
		bad: []string{
			"clients/camera/internal/gvsp clients",
			"clients/camera/internal/simulator proto/polyscan/v1",
			"clients/camera/internal/gvcp clients/camera",
		},
		good: []string{
			"clients/camera/internal/simulator clients/camera/internal/gvsp",
			"clients/camera clients + clients/camera clients/camera/internal/gvcp",
		},
	},
	{
		name: "kernels imports only kernels/driver of ours",
		why:  "pooling, budget and deadlines are written once, without a backend or a domain",
		in:   func(pkg string) bool { return pkg == "kernels" },
		deny: func(_, p string, ours bool) bool { return ours && p != "kernels/driver" },
		deep: true,
		bad: []string{
			"kernels kernels/cpu",
			"kernels polygon",
			"kernels proto/polyscan/v1",
			"kernels kernels/driver + kernels/driver server",
		},
		good: []string{
			"kernels kernels/driver",
			"kernels_test kernels/cpu",
			"kernels golang.org/x/sync/errgroup",
		},
	},
	{
		name: "kernels/driver imports only the standard library",
		why:  "whoever writes a backend takes on the interface and nothing else",
		in:   func(pkg string) bool { return pkg == "kernels/driver" },
		deny: func(_, p string, ours bool) bool { return ours || !standard(p) },
		bad: []string{
			"kernels/driver kernels",
			"kernels/driver golang.org/x/sys/cpu",
			"kernels/driver google.golang.org/grpc/codes",
			"kernels/driver C",
		},
		good: []string{
			"kernels/driver context",
			"kernels/driver math/bits",
			"kernels/driver_test pgregory.net/rapid",
		},
	},
	{
		name: "only kernels, backends and domains import kernels/driver",
		why: "programs meet formats, methods and points where they call: in kernels and the domains; " +
			"only server/drivers gives a driver, and only polyscan bench times one",
		in: func(pkg string) bool {
			return (under(pkg, "server") || under(pkg, "clients")) && pkg != "server/drivers" && pkg != "clients/polyscan"
		},
		deny: func(_, p string, _ bool) bool { return p == "kernels/driver" },
		bad: []string{
			"server kernels/driver",
			"server/internal/wire kernels/driver",
			"server/daemon kernels/driver",
			"clients kernels/driver",
			"clients/conveyor kernels/driver",
		},
		good: []string{
			"server kernels + kernels kernels/driver",
			"server_test kernels/driver",
			"polygon kernels/driver",
			"server/drivers kernels/driver",
			"clients/polyscan kernels/driver",
		},
	},
	{
		name: "a backend imports only kernels/driver of ours",
		why:  "it knows ops, not frames, regions or requests, and shares no code with its twin",
		in:   func(pkg string) bool { return rootOf(pkg, backends) != "" },
		deny: func(from, p string, ours bool) bool {
			return ours && p != "kernels/driver" && !under(p, rootOf(from, backends))
		},
		deep: true,
		bad: []string{
			"kernels/cpu kernels",
			"kernels/cpu polygon",
			"kernels/cpu kernels/cuda",
			"kernels/cuda kernels/cpu",
			"kernels/cuda proto/polyscan/v1",
			"kernels/cuda internal/devicetest",
			"kernels/cpu kernels/cpu/internal/simd + kernels/cpu/internal/simd kernels",
		},
		good: []string{
			"kernels/cpu kernels/driver",
			"kernels/cuda kernels/cuda/internal/drv",
			"kernels/cpu golang.org/x/sys/cpu",
			"kernels/cpu_test internal/devicetest",
			"kernels/cuda_test kernels/cpu",
		},
	},
	{
		name: "domains don't reach a backend",
		why:  "they run on whatever device they are given",
		in:   func(pkg string) bool { return rootOf(pkg, domains) != "" },
		deny: func(_, p string, _ bool) bool { return rootOf(p, backends) != "" },
		deep: true,
		bad: []string{
			"polygon kernels/cpu",
			"diffusion kernels/cuda",
			"lowpoly/mesh kernels/cpu",
			"polygon kernels + kernels kernels/cpu",
		},
		good: []string{
			"polygon kernels",
			"polygon kernels/driver",
			"polygon_test kernels/cpu",
		},
	},
	{
		name:  "domains don't import each other",
		why:   "each can be read, tested and dropped alone",
		in:    func(pkg string) bool { return rootOf(pkg, domains) != "" },
		tests: true,
		deny: func(from, p string, _ bool) bool {
			to := rootOf(p, domains)
			return to != "" && to != rootOf(from, domains)
		},
		deep: true,
		bad: []string{
			"polygon lowpoly",
			"lowpoly diffusion",
			"diffusion polygon/grid",
			"polygon_test lowpoly",
			"lowpoly kernels + kernels polygon",
		},
		good: []string{
			"polygon polygon/grid",
			"polygon kernels",
			"server polygon + server lowpoly",
		},
	},
	{
		name: "domains and kernels don't know the protocol",
		why:  "requests are translated once, in server",
		in: func(pkg string) bool {
			return rootOf(pkg, domains) != "" || under(pkg, "kernels") || under(pkg, "internal/devicetest")
		},
		tests: true,
		deny: func(_, p string, _ bool) bool {
			return rootOf(p, []string{"proto", "server", "clients"}) != ""
		},
		deep: true,
		bad: []string{
			"polygon proto/polyscan/v1",
			"polygon_test proto/polyscan/v1",
			"internal/devicetest server",
			"diffusion kernels + kernels clients",
		},
		good: []string{
			"polygon kernels",
			"polygon_test kernels/cpu",
			"server proto/polyscan/v1",
		},
	},
	{
		name: "only tests import internal/devicetest",
		why:  "it holds fixtures, oracles and failing drivers, which no program may link",
		in:   func(pkg string) bool { return pkg != "internal/devicetest" },
		deny: func(_, p string, _ bool) bool { return under(p, "internal/devicetest") },
		bad:  []string{"server internal/devicetest", "kernels/cpu internal/devicetest"},
		good: []string{"server_test internal/devicetest", "internal/devicetest kernels"},
	},
	{
		name: "only tests import internal/pictures/picturetest",
		why:  "it makes files that are no good",
		in:   func(string) bool { return true },
		deny: func(_, p string, _ bool) bool { return under(p, "internal/pictures/picturetest") },
		bad:  []string{"internal/pictures internal/pictures/picturetest"},
		good: []string{"internal/pictures_test internal/pictures/picturetest"},
	},
	{
		name:  "proto imports none of ours",
		why:   "a client of any age starts from it alone",
		in:    func(pkg string) bool { return under(pkg, "proto") },
		tests: true,
		deny:  func(_, p string, ours bool) bool { return ours && !under(p, "proto") },
		bad: []string{
			"proto/polyscan/v1 polygon",
			"proto/polyscan/v1 server",
			"proto/polyscan/v1_test clients",
		},
		good: []string{
			"proto/polyscan/v1 google.golang.org/protobuf/proto",
			"proto/polyscan/v1 buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate",
		},
	},
	{
		name: "rooms of the server don't import the server",
		why:  "a room says in its own interface what it needs of the server, so that it can be read and tested alone",
		in:   func(pkg string) bool { return under(pkg, rooms) },
		deny: func(_, p string, _ bool) bool { return under(p, "server") && !under(p, rooms) },
		deep: true,
		bad: []string{
			"server/internal/scan server",
			"server/internal/wire server/drivers",
			"server/internal/scan server/internal/wire + server/internal/wire server",
		},
		good: []string{
			"server/internal/scan server/internal/wire",
			"server/internal/scan_test server",
			"server server/internal/scan",
		},
	},
	{
		name:  "rooms of the server import only those at the bottom",
		why:   "each can be read, tested and changed without the others",
		in:    func(pkg string) bool { return under(pkg, rooms) },
		tests: true,
		deny: func(from, p string, _ bool) bool {
			return under(p, rooms) && !under(p, from) && rootOf(p, bottomRooms) == "" && !under(p, serverTest)
		},
		bad: []string{
			"server/internal/scan server/internal/inspect",
			"server/internal/wire server/internal/scan",
			"server/internal/mesh_test server/internal/inspect",
		},
		good: []string{
			"server/internal/scan server/internal/wire",
			"server/internal/wire server/internal/apierr",
			"server/internal/scan_test server/internal/servertest",
			"server server/internal/inspect",
		},
	},
	{
		name:  "the attacks know no code of the server",
		why:   "they are programs written from the schemas alone",
		in:    func(pkg string) bool { return under(pkg, "server/attack") },
		tests: true,
		deny: func(_, p string, ours bool) bool {
			return ours && !under(p, "proto/polyscan") && !under(p, "server/attack")
		},
		bad: []string{
			"server/attack_test server",
			"server/attack server/daemon",
			"server/attack_test proto/framecodec",
		},
		good: []string{
			"server/attack_test proto/polyscan/v1",
			"server_test clients",
		},
	},
	{
		name: "server doesn't import clients",
		why:  "a server that needs its client can't be changed without it",
		in:   func(pkg string) bool { return under(pkg, "server") },
		deny: func(_, p string, _ bool) bool { return under(p, "clients") },
		deep: true,
		bad: []string{
			"server clients",
			"server/cmd/polyscand clients/polyscan",
			"server polygon + polygon clients",
		},
		good: []string{
			"server polygon",
			"server_test clients",
			"clients/polyscan server",
		},
	},
	{
		name: "the client library doesn't pull in the server",
		why:  "a program that talks to polyscan links the protocol, not the kernels",
		in:   func(pkg string) bool { return pkg == "clients" },
		deny: func(_, p string, _ bool) bool { return under(p, "server") || rootOf(p, backends) != "" },
		deep: true,
		bad: []string{
			"clients server",
			"clients kernels/cpu",
			"clients clients/internal/x + clients/internal/x server/drivers",
		},
		good: []string{
			"clients proto/polyscan/v1",
			"clients/polyscan server",
			"clients_test server",
		},
	},
}

// subjects are the packages that rules name. A rule about a folder that was
// renamed would hold for ever, so each must exist; later marks those that are
// laid out but not there yet, and may not stay marked once they are.
var subjects = []struct {
	pkg   string
	later bool
}{
	{pkg: "clients"},
	{pkg: "diffusion"},
	{pkg: "internal/devicetest"},
	{pkg: "kernels"},
	{pkg: "kernels/cpu"},
	{pkg: "kernels/cuda"},
	{pkg: "kernels/driver"},
	{pkg: "lowpoly"},
	{pkg: "polygon"},
	{pkg: "proto/polyscan/v1"},
	{pkg: "server"},
	{pkg: "server/drivers"},
}

func TestImports(t *testing.T) {
	g, err := scan(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, e := range g.edges {
		have[e.pkg] = have[e.pkg] || !e.test
	}
	for _, s := range subjects {
		switch {
		case !have[s.pkg] && !s.later:
			t.Errorf("%s: no Go file there that imports anything, so the rules about it check nothing", s.pkg)
		case have[s.pkg] && s.later:
			t.Errorf("%s: exists now; take the mark \"later\" off it", s.pkg)
		}
	}
	for _, r := range rules {
		for _, line := range r.report(g) {
			t.Error(line)
		}
	}
}

func TestImportRulesReport(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if len(r.bad) == 0 || len(r.good) == 0 {
				t.Fatal("no graph that it must report, or none that it must not")
			}
			for _, s := range r.bad {
				if len(r.report(parseGraph(t, s))) == 0 {
					t.Errorf("%q: not reported", s)
				}
			}
			for _, s := range r.good {
				for _, line := range r.report(parseGraph(t, s)) {
					t.Errorf("%q: reported: %s", s, line)
				}
			}
		})
	}
}

// TestScan plants one wrong import in each kind of file that a build on this
// machine would leave out.
func TestScan(t *testing.T) {
	planted := map[string]string{
		"polygon/a.go":                "//go:build cuda\n\npackage polygon\n\nimport \"gorgonia.org/cu\"\n",
		"polygon/b_plan9.go":          "package polygon\n\nimport _ \"gorgonia.org/cu\"\n",
		"polygon/c_test.go":           "package polygon_test\n\nimport \"gorgonia.org/cu\"\n",
		"polygon/testdata/gen/d.go":   "package main\n\nimport \"gorgonia.org/cu\"\n",
		"server/.hidden/e.go":         "package hidden\n\nimport \"gorgonia.org/cu\"\n",
		"kernels/_tools/f.go":         "package tools\n\nimport cu \"gorgonia.org/cu\"\n",
		"kernels/cuda/allowed.go":     "package cuda\n\nimport \"gorgonia.org/cu\"\n",
		"clients/x/clean.go":          "package x\n\nimport \"" + module + "/polygon\"\n",
		"polygon/testdata/broken.txt": "import \"gorgonia.org/cu\"\n",
	}
	root := t.TempDir()
	for name, text := range planted {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g, err := scan(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range rules[0].report(g) {
		file, _, _ := strings.Cut(line, ":")
		got = append(got, file)
	}
	want := []string{
		"kernels/_tools/f.go",
		"polygon/a.go",
		"polygon/b_plan9.go",
		"polygon/c_test.go",
		"polygon/testdata/gen/d.go",
		"server/.hidden/e.go",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("files reported:\n%q, want\n%q", got, want)
	}
	if !g.ours["polygon"] || g.ours[binding] {
		t.Errorf("ours = %v, want polygon and not %s", g.ours, binding)
	}

	bad := filepath.Join(root, "polygon", "syntax.go")
	if err := os.WriteFile(bad, []byte("package polygon\n\nimport (\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := scan(os.DirFS(root)); err == nil {
		t.Error("a file whose imports can't be read: no error")
	}
}

// scan reads the imports of every .go file below the root, in lexical order.
// Only what git never holds is left out.
func scan(root fs.FS) (graph, error) {
	g := graph{ours: map[string]bool{}}
	fset := token.NewFileSet()
	err := walkFiles(root, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			if p == module {
				p = "."
				g.ours[p] = true
			} else if rest, ok := strings.CutPrefix(p, module+"/"); ok {
				p = rest
				g.ours[p] = true
			}
			g.edges = append(g.edges, edge{
				pkg:  path.Dir(name),
				path: p,
				file: name,
				test: strings.HasSuffix(name, "_test.go"),
			})
		}
		return nil
	})
	return g, err
}

// walkFiles calls visit for each file below the root, in lexical order, but for
// those in folders that hold nothing of the repository.
func walkFiles(root fs.FS, visit func(name string) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git": // a file in a second working tree
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir():
			return visit(name)
		case name == "bin" || name == "build":
			return fs.SkipDir
		}
		return nil
	})
}

// parseGraph reads "importer path + importer path".
func parseGraph(t *testing.T, s string) graph {
	t.Helper()
	g := graph{ours: map[string]bool{}}
	for _, item := range strings.Split(s, " + ") {
		pkg, p, ok := strings.Cut(item, " ")
		if !ok {
			t.Fatalf("%q: want \"importer path\"", item)
		}
		pkg, test := strings.CutSuffix(pkg, "_test")
		name := "a.go"
		if test {
			name = "a_test.go"
		}
		g.edges = append(g.edges, edge{pkg: pkg, path: p, file: path.Join(pkg, name), test: test})
		top, _, _ := strings.Cut(p, "/")
		switch top {
		case "clients", "diffusion", "internal", "kernels", "lowpoly", "polygon", "proto", "server":
			g.ours[p] = true
		}
	}
	return g
}

// report lists what r finds wrong in g, one line for each offending import.
func (r rule) report(g graph) []string {
	imports := map[string][]string{} // of each package, outside its tests
	for _, e := range g.edges {
		if !e.test {
			imports[e.pkg] = append(imports[e.pkg], e.path)
		}
	}
	var out []string
	for _, e := range g.edges {
		if !r.in(e.pkg) || e.test && !r.tests {
			continue
		}
		seen := map[string]bool{}
		var find func(p string) []string
		find = func(p string) []string {
			if seen[p] {
				return nil
			}
			seen[p] = true
			if r.deny(e.pkg, p, g.ours[p]) {
				return []string{p}
			}
			if !r.deep || !g.ours[p] {
				return nil
			}
			for _, q := range imports[p] {
				if chain := find(q); chain != nil {
					return append([]string{p}, chain...)
				}
			}
			return nil
		}
		if chain := find(e.path); chain != nil {
			out = append(out, fmt.Sprintf("%s: imports %s, but %s: %s",
				e.file, strings.Join(chain, ", which imports "), r.name, r.why))
		}
	}
	return out
}

// under reports whether p is root or lies below it.
func under(p, root string) bool {
	return p == root || strings.HasPrefix(p, root+"/")
}

// rootOf returns the one of roots that p lies under, or "".
func rootOf(p string, roots []string) string {
	for _, root := range roots {
		if under(p, root) {
			return root
		}
	}
	return ""
}

// standard reports whether p is a package of the standard library: the first
// element of any other import path is a host, and has a dot.
func standard(p string) bool {
	top, _, _ := strings.Cut(p, "/")
	return p != "C" && !strings.Contains(top, ".")
}
