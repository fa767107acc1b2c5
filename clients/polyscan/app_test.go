package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/race"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// asProgram makes the test binary the program, for the server that tests start and kill.
const asProgram = "POLYSCAN_TEST_AS_PROGRAM=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(asProgram, "="); os.Getenv(name) == value {
		// Package shorttest adds an argument, which is for tests.
		os.Args = slices.DeleteFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
		main()
	}
	// What the user's shell says must not reach the tests.
	for _, name := range []string{"POLYSCAN_ADDR", "POLYSCAN_TOKEN_FILE", "COMP_LINE", "COMP_POINT", "NO_COLOR"} {
		os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}

// frames is where the repository's frames are.
const frames = "../../testdata/"

// polyscan runs the command as a shell would.
func polyscan(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return polyscanIn(t, t.Context(), nil, args...)
}

func polyscanIn(t *testing.T, ctx context.Context, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	code = run(ctx, args, stdin, &out, &errs)
	return out.String(), errs.String(), code
}

// succeed is polyscan for runs that must be fine.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := polyscan(t, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("polyscan %s: exit %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("output differs from %s (go test -update writes it anew)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

var times = regexp.MustCompile(`[0-9.]+ (µs|ms|s)\b`)

// timeless replaces times by a word.
func timeless(s string) string { return times.ReplaceAllString(s, "TIME") }

func TestHelp(t *testing.T) {
	commands := []string{"", "reduce", "stream", "mask", "regions", "frames", "frames put", "frames list",
		"frames release", "recipe", "recipe put", "recipe get", "recipe list", "recipe delete",
		"teach", "try", "flat", "lowpoly", "diffuse", "fill", "background", "triangulate", "serve", "device", "bench", "completion",
		"version"}
	for _, c := range commands {
		args := append(strings.Fields(c), "--help")
		stdout := succeed(t, args...)
		if !strings.Contains(stdout, "Examples:\n\n    ") {
			t.Errorf("polyscan %s --help shows no examples:\n%s", c, stdout)
		}
		for _, name := range strings.Fields(c) {
			if !strings.Contains(stdout, name) {
				t.Errorf("polyscan %s --help doesn't mention %s", c, name)
			}
		}
	}
	for _, c := range []string{"reduce", "stream", "try"} {
		if stdout := succeed(t, c, "--help"); !strings.Contains(stdout, "Exit codes: 0 ") ||
			!strings.Contains(stdout, "130") {
			t.Errorf("polyscan %s --help doesn't tell the exit codes", c)
		}
	}
	// No arguments at all is a mistake that the help answers.
	stdout, stderr, code := polyscan(t)
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "Usage: polyscan <command>") {
		t.Errorf("no arguments: exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// shellWords are the words of a command, some of them in quotes.
var shellWords = regexp.MustCompile(`'[^']*'|\S+`)

// TestHelpExamples parses every example of every help text, so that none names a flag that is gone.
func TestHelpExamples(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	n := 0
	for _, c := range []string{"", "reduce", "stream", "mask", "regions", "frames", "frames put", "frames list",
		"frames release", "recipe", "recipe put", "recipe get", "recipe list", "recipe delete",
		"teach", "try", "flat", "lowpoly", "diffuse", "fill", "background", "triangulate", "serve", "device", "bench", "version"} {
		for line := range strings.Lines(succeed(t, append(strings.Fields(c), "--help")...)) {
			for part := range strings.SplitSeq(line, "|") {
				args := shellWords.FindAllString(part, -1)
				for i := range args {
					args[i] = strings.Trim(args[i], "'")
				}
				if !strings.HasPrefix(line, "    polyscan ") || len(args) == 0 || args[0] != "polyscan" ||
					args[1] == "COMMAND" {
					continue
				}
				n++
				// --help behind it is seen only if what is before it parses.
				_, stderr, code := polyscan(t, append(args[1:], "--help")...)
				if code != exitOK {
					t.Errorf("%s: exit %d, %s", strings.TrimSpace(part), code, stderr)
				}
				if strings.Contains(part, "--nonsense") {
					t.Errorf("%s", part)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d examples found", n)
	}
	if _, _, code := polyscan(t, "reduce", "x", "--nonsense", "--help"); code == exitOK {
		t.Error("an example with an unknown flag would pass this test")
	}
}

func TestVersion(t *testing.T) {
	if stdout := succeed(t, "version"); !strings.HasPrefix(stdout, "polyscan ") || strings.Count(stdout, "\n") != 1 ||
		!strings.Contains(stdout, "cpu") {
		t.Errorf("version: %q", stdout)
	}
	var v struct {
		Version, Go, OS, Arch string
		Drivers               []string
	}
	if err := json.Unmarshal([]byte(succeed(t, "version", "--json")), &v); err != nil || v.Version == "" ||
		v.Go == "" || len(v.Drivers) == 0 {
		t.Errorf("version --json: %+v, %v", v, err)
	}
}

func TestDevice(t *testing.T) {
	stdout := succeed(t, "device", "--threads", "1")
	for _, want := range []string{"backend        cpu\n", "compute units  1\n", "limits         messages of 2.00 GiB"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("device: no %q in\n%s", want, stdout)
		}
	}
	var d deviceReport
	if err := json.Unmarshal([]byte(succeed(t, "device", "--json")), &d); err != nil {
		t.Fatal(err)
	}
	started, err := time.Parse(time.RFC3339Nano, d.StartedAt)
	if err != nil || time.Since(started) > time.Minute || d.Backend != "cpu" || d.Memory.Reserved == 0 ||
		d.Limits["max_regions"] != 100_000 {
		t.Errorf("device --json: %+v, %v", d, err)
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string][]string{
		"bash": {"complete -o default -o bashdefault -C ", " polyscan"},
		"zsh":  {"bashcompinit", "complete -o default", " polyscan"},
		"fish": {"function __complete_polyscan", "complete -f -c polyscan"},
	} {
		stdout := succeed(t, "completion", shell)
		for _, w := range want {
			if !strings.Contains(stdout, w) {
				t.Errorf("completion %s: no %q in\n%s", shell, w, stdout)
			}
		}
	}
	// What a shell gets when it asks.
	t.Chdir("../..")
	for line, want := range map[string][]string{
		"polyscan re":                   {"reduce", "recipe"},
		"polyscan recipe ":              {"put", "get", "list", "delete"},
		"polyscan reduce --over":        {"--overlay", "--overlay-size"},
		"polyscan reduce --method ":     {"naive", "row-spans", "auto"},
		"polyscan reduce --stats ":      {"mean", "histogram", "all"},
		"polyscan reduce --format ":     {"gray16le"},
		"polyscan mask --fill ":         {"nonzero", "evenodd"},
		"polyscan stream testdata/conv": {"testdata/conveyor/"},
		"polyscan reduce testdata/boa":  {"testdata/board.png"},
		"polyscan completion ":          {"bash", "zsh", "fish"},
	} {
		t.Setenv("COMP_LINE", line)
		stdout, _, code := polyscan(t)
		got := strings.Fields(stdout)
		for _, w := range want {
			if code != 0 || !contains(got, w) {
				t.Errorf("completing %q: exit %d, %q, want %q among them", line, code, got, w)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func TestColours(t *testing.T) {
	e := &env{colour: true}
	if got := e.paint(cli.Red, "x"); got != "\x1b[1;31mx\x1b[0m" {
		t.Errorf("painted %q", got)
	}
	for name, e := range map[string]*env{"no terminal": newEnv(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})} {
		if got := e.paint(cli.Red, "x"); got != "x" {
			t.Errorf("%s: painted %q", name, got)
		}
	}
	// A terminal, as far as a test can have one: the decision itself.
	tty, err := os.Open("/dev/tty")
	if err != nil {
		t.Skip("no terminal here:", err)
	}
	defer tty.Close()
	t.Setenv("TERM", "xterm")
	if e := newEnv(t.Context(), nil, tty, tty); !e.colour || !e.live {
		t.Errorf("on a terminal: %+v", e)
	}
	t.Setenv("NO_COLOR", "1")
	if e := newEnv(t.Context(), nil, tty, tty); e.colour {
		t.Error("NO_COLOR is ignored")
	}
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"板板板", 5, "板板…"}, {"", 1, ""}} {
		if got := shorten(tt.in, tt.n); got != tt.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	tab := &table{columns: []column{{title: "NAME"}, {"N", true}, {title: "V"}}}
	tab.add(cell{text: "板"}, cell{text: "1"}, cell{text: "PASS"})
	tab.add(cell{text: ""}, cell{text: "12345"}, cell{text: ""})
	tab.add(cell{text: "longer"}, cell{text: ""}, cell{text: "x"})
	if err := tab.write(&env{}, &b); err != nil {
		t.Fatal(err)
	}
	want := "NAME        N  V\n板          1  PASS\n        12345\nlonger         x\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
	b.Reset()
	tab.rows[0][2].style = cli.Green
	if err := tab.write(&env{colour: true}, &b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "1  \x1b[32mPASS\x1b[0m\n") {
		t.Errorf("coloured %q", b.String())
	}
}
