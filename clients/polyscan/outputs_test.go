package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestOutputs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("d", 0o777); err != nil {
		t.Fatal(err)
	}
	linked := os.Symlink("d", "l") == nil // which not every system has for everyone
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ a, b, says string }{
		{"", "", ""},
		{"-", "", ""},
		{"a.png", "-", ""},
		{"a.png", "b.png", ""},
		{"a.png", "d/a.png", ""},
		{"-", "-", "--a and --b are both -: standard output holds one of them"},
		{"a.png", "a.png", "--a and --b are both a.png: a file holds one of them"},
		{"a.png", "./a.png", "--a a.png and --b ./a.png are one file"},
		{"d/../a.png", "a.png", "are one file"},
		{filepath.Join(here, "d", "a.png"), "d//a.png", "are one file"},
		{"d/a.png", "l/a.png", "are one file"},
		{"n/a.png", "b.png", "n/a.png: "},
		{"a.png", "n/b.png", "n/b.png: "},
	} {
		if strings.HasPrefix(x.b, "l/") && !linked {
			continue
		}
		err := checkOutputs(nil, output{"--a", x.a, ""}, output{"--none", "", ".png"}, output{"--b", x.b, ""})
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%q, %q: %v, want %q", x.a, x.b, err, x.says)
		}
	}
}

// TestOutputsReplaceNoInput: a file that is read is not written, by whatever name.
func TestOutputsReplaceNoInput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.png", []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	linked := os.Symlink("a.png", "l.png") == nil
	for _, x := range []struct {
		in, out string
		refused bool
	}{
		{"a.png", "a.png", true}, {"a.png", "./a.png", true}, {"l.png", "a.png", true}, {"a.png", "l.png", true},
		{"a.png", "b.png", false}, {"-", "-", false}, {"", "a.png", false}, {"a.png", "", false}, {"a.png", "-", false},
	} {
		if !linked && (x.in == "l.png" || x.out == "l.png") {
			continue
		}
		err := checkOutputs(inputs{"", x.in}, output{"--output", x.out, ""})
		if want := "would replace " + x.in + ", which is read"; (err != nil) != x.refused ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q from %q: %v", x.out, x.in, err)
		}
	}
	board, zones := frames+"board.png", frames+"board.regions.json"
	for _, args := range [][]string{
		{"reduce", board, "-r", zones, "--overlay", board}, {"blobs", board, "--find", ">= 9", "--overlay", board},
		{"reduce", frames + "metal.png", "-r", zones, "--golden", "g=" + board, "--plot", board},
		{"background", "gone.png", "--mask", board, "-o", "x.png", "--residual", board},
		{"teach", frames + "conveyor", "-r", zones, "-o", zones}, {"regions", zones, "-o", zones},
		{"lowpoly", "--video", frames + "conveyor", "-o", frames + "conveyor"},
	} {
		if _, stderr, code := polyscan(t, args...); code != exitUsage || !strings.Contains(stderr, "which is read") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
}

// commandsOf is the commands below a type of the grammar, each with the type of its flags.
func commandsOf(of reflect.Type, path string, all map[string]reflect.Type) map[string]reflect.Type {
	leaf := true
	for _, f := range reflect.VisibleFields(of) {
		if _, ok := f.Tag.Lookup("cmd"); ok {
			leaf = false
			commandsOf(f.Type, strings.TrimSpace(path+" "+strings.ToLower(f.Name)), all)
		}
	}
	if leaf {
		all[path] = of
	}
	return all
}

// TestKindsOfOutputs: every flag and argument of every command that names a file to write refuses a name that ends in
// something else than what is written there, before anything is read.
func TestKindsOfOutputs(t *testing.T) {
	args := map[string]string{
		"reduce --overlay": "reduce gone.png -r gone.json --overlay F",
		"reduce --plot":    "reduce gone.png -r gone.json --plot F",
		"blobs --overlay":  "blobs gone.png --find >=1 --overlay F",
		"locate --overlay": "locate gone.png -r gone.json --overlay F",
		"stream --csv":     "stream gone -r gone.json --csv F", "mask --output": "mask --size 9x9 -r gone.json -o F",
		"regions --output": "regions gone.json -o F", "recipe get --output": "recipe get r -o F --recipes gone",
		"flat --output":  "flat gone.png -o F",
		"teach --output": "teach gone -r gone.json -o F", "lowpoly --output": "lowpoly gone.png -o F",
		"lowpoly --svg": "lowpoly gone.png --svg F", "lowpoly --mesh": "lowpoly gone.png --mesh F",
		"diffuse --output": "diffuse gone.json -o F", "extract --output": "extract gone.png -o F",
		"extract --preview": "extract gone.png -o x.json --preview F", "fill --output": "fill gone.png -o F",
		"background --output":   "background gone.png -o F",
		"background --residual": "background gone.png -o x.png --residual F",
		"triangulate --output":  "triangulate gone.npy -o F", "history export <file>": "history export F --addr h:1",
		"history picture <file>": "history picture 7 F --addr h:1",
	}
	reads := []string{"diffuse --compare"}
	var found []string
	for name, of := range commandsOf(reflect.TypeFor[app](), "", map[string]reflect.Type{}) {
		for _, f := range reflect.VisibleFields(of) {
			flag := f.Tag.Get("name")
			if flag == "" {
				flag = strings.ToLower(f.Name)
			}
			if _, ok := f.Tag.Lookup("arg"); ok && strings.HasPrefix(name, "history") && flag == "file" {
				found = append(found, name+" <file>")
			}
			if slices.Contains(reads, name+" --"+flag) {
				continue
			}
			if flag == "output" || f.Tag.Get("group") == "output" && f.Tag.Get("predictor") == "file" {
				found = append(found, name+" --"+flag)
			}
		}
	}
	if len(found) < len(args) {
		t.Errorf("only %q write files", found)
	}
	for _, flag := range found {
		if args[flag] == "" {
			t.Errorf("%s writes a file, and its kind is not looked at here", flag)
			continue
		}
		for _, file := range []string{"x.zzz", "png", "x", ".json", "x.json.exe", filepath.Join(t.TempDir(), "x.txt")} {
			line := strings.Fields(args[flag])
			line[slices.Index(line, "F")] = file
			stdout, stderr, code := polyscan(t, line...)
			if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file+": ") ||
				!strings.Contains(stderr, "ends in .") {
				t.Errorf("%q: exit %d, %q", line, code, stderr)
			}
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%q made the file", line)
			}
			if file != "x" {
				continue
			}
			// What is there is gone, too, so that the folder is looked at before all else.
			_, kinds, _ := strings.Cut(strings.TrimSpace(stderr), "ends in ")
			file, _, _ = strings.Cut(kinds, " ")
			line[slices.Index(line, "x")] = "nowhere/x" + file
			_, stderr, code = polyscan(t, line...)
			if code != exitUsage || stderr != "polyscan: nowhere/x"+file+": no such file or directory\n" {
				t.Errorf("%q: exit %d, %q", line, code, stderr)
			}
		}
	}
}
