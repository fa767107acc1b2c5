package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/server/internal/setting"
)

// parse reads a command line. What it prints and its exit code, -1 for none, are those of --print-config.
func parse(t *testing.T, args ...string) (f Flags, printed string, exit int, err error) {
	t.Helper()
	var cmd struct{ Flags }
	var out strings.Builder
	exit = -1
	k, err := kong.New(&cmd, append(Options(""), kong.Writers(&out, &out), kong.Exit(func(code int) {
		exit = code
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Parse(args)
	return cmd.Flags, out.String(), exit, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "polyscand.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Each kind of setting at each level. A level is set together with all that it beats.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name            string
		flag, env, file string // values, as written there
		get             func(Flags) any
		want            [4]any // by flag, environment, file, default
	}{
		{"device", "cpu", "auto", "cpu", func(f Flags) any { return f.Device }, [4]any{"cpu", "auto", "cpu", "auto"}},
		{"streams", "1", "2", "3", func(f Flags) any { return f.Streams }, [4]any{1, 2, 3, 0}},
		{"max-pixels", "1", "2", "3", func(f Flags) any {
			return f.MaxFramePixels
		}, [4]any{int64(1), int64(2), int64(3), int64(1 << 28)}},
		{"max-message", "100KiB", "200KB", "300000", func(f Flags) any {
			return f.MaxMessageBytes
		}, [4]any{int64(100 << 10), int64(200_000), int64(300_000), int64(256 << 20)}},
		{"shutdown-timeout", "1s", "2m", "3h", func(f Flags) any { return f.ShutdownTimeout },
			[4]any{time.Second, 2 * time.Minute, 3 * time.Hour, 30 * time.Second}},
		{"listen", ":1", ":2,unix:/b", "[':3', 'unix:/c', '[::1]:7']", func(f Flags) any { return f.Listen },
			[4]any{[]string{":1"}, []string{":2", "unix:/b"}, []string{":3", "unix:/c", "[::1]:7"},
				[]string{"localhost:7465"}}},
		{"reflection", "true", "false", "true", func(f Flags) any {
			return !f.NoReflection
		}, [4]any{true, false, true, true}},
		{"channelz", "false", "true", "no", func(f Flags) any { return !f.NoChannelz }, [4]any{false, true, false, true}},
		{"log-level", "debug", "warn", "error", func(f Flags) any {
			return f.LogLevel
		}, [4]any{"debug", "warn", "error", "info"}},
		{"token-file", "/a", "/b", "/c", func(f Flags) any { return f.TokenFile }, [4]any{"/a", "/b", "/c", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := "POLYSCAN_" + strings.ToUpper(strings.ReplaceAll(c.name, "-", "_"))
			config := writeFile(t, "# a comment\n"+c.name+": "+c.file+"\n")
			for level := range c.want {
				var args []string
				origin := "default"
				if level <= 2 {
					args = append(args, "--config", config)
					origin = "file " + config + ":2"
				}
				os.Unsetenv(env)
				if level <= 1 {
					t.Setenv(env, c.env)
					origin = "environment " + env
				}
				if level == 0 {
					args = append(args, "--"+c.name+"="+c.flag)
					origin = "flag --" + c.name
				}
				f, _, _, err := parse(t, args...)
				if err != nil {
					t.Fatalf("%s: %v", origin, err)
				}
				if got := c.get(f); !reflect.DeepEqual(got, c.want[level]) {
					t.Errorf("by %s: %v, want %v", origin, got, c.want[level])
				}
				_, printed, exit, err := parse(t, append(args, "--print-config")...)
				if err != nil || exit != 0 {
					t.Errorf("--print-config: exit code %d, %v", exit, err)
				}
				line := regexp.MustCompile(`(?m)^` + c.name + `: .* # ` + regexp.QuoteMeta(origin) + `$`)
				if !line.MatchString(printed) {
					t.Errorf("--print-config doesn't say that %s is by %s:\n%s", c.name, origin, printed)
				}
			}
		})
	}
}

// The file can come from the environment, and the flag beats that.
func TestConfigByEnvironment(t *testing.T) {
	t.Setenv("POLYSCAN_CONFIG", writeFile(t, "streams: 3\n"))
	if f, _, _, err := parse(t); err != nil || f.Streams != 3 {
		t.Errorf("streams %d, %v", f.Streams, err)
	}
	if f, _, _, err := parse(t, "-c", writeFile(t, "streams: 5\n")); err != nil || f.Streams != 5 {
		t.Errorf("streams %d, %v", f.Streams, err)
	}
	t.Setenv("POLYSCAN_CONFIG", "")
	if _, _, _, err := parse(t); err == nil || !strings.Contains(err.Error(), "POLYSCAN_CONFIG: the value is empty") {
		t.Error(err)
	}
}

// An empty text, such as that of a variable that isn't set, beats no other value, whatever the setting.
func TestEmptySettings(t *testing.T) {
	var cmd struct{ Flags }
	k, err := kong.New(&cmd, Options("")...)
	if err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, "token-file: /c\nlisten: [':1']\n")
	for _, s := range k.Model.Flags {
		if s.Name == "help" || s.Name == "print-config" {
			continue
		}
		args := []string{"--config", config}
		if s.Name == "config" {
			args = nil
		}
		if _, _, _, err := parse(t, append(args, "--"+s.Name+"=")...); err == nil ||
			!strings.Contains(err.Error(), "--"+s.Name) {
			t.Errorf("--%s=: %v", s.Name, err)
		}
		t.Run(s.Envs[0], func(t *testing.T) {
			t.Setenv(s.Envs[0], "")
			if _, _, _, err := parse(t, args...); err == nil ||
				!strings.Contains(err.Error(), s.Envs[0]) && s.Enum == "" { // which kong refuses first
				t.Error(err)
			}
			if s.Name == "token-file" { // the flag beats it
				if f, _, _, err := parse(t, append(args, "--token-file=/a")...); err != nil || f.TokenFile != "/a" {
					t.Errorf("%q, %v", f.TokenFile, err)
				}
			}
		})
	}
}

// Zeros in front, which might make a number octal, are refused wherever it stands.
func TestDecimal(t *testing.T) {
	for _, args := range [][]string{{"--threads", "08"}, {"--max-pixels", "010"},
		{"--config", writeFile(t, "streams: 0100\n")}} {
		if _, _, _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), "in plain digits") {
			t.Errorf("%q: %v", args, err)
		}
	}
	t.Setenv("POLYSCAN_MAX_PIXELS", "010")
	if _, _, _, err := parse(t); err == nil || !strings.Contains(err.Error(), "in plain digits") {
		t.Error(err)
	}
}

// What --print-config prints are the same settings again, all of them.
func TestPrintedSettingsAreAFile(t *testing.T) {
	args := []string{"--listen", ":1", "--listen", `unix:/x\, y`, "--memory", "1.5GiB", "--host-memory", "2000001",
		"--no-channelz",
		"--shutdown-timeout", "90s", "--recipes", "/a: #b", "--http", ":2", "--shm-socket", "/s", "--shm-allow-uid", "7,8"}
	want, printed, _, err := parse(t, append(args, "--print-config")...)
	if err != nil {
		t.Fatal(err)
	}
	got, again, _, err := parse(t, "--config", writeFile(t, printed), "--print-config")
	if err != nil {
		t.Fatalf("%v in\n%s", err, printed)
	}
	got.File, want.File = "", ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	origin := regexp.MustCompile(` # .*`)
	if a, b := origin.ReplaceAllString(again, ""), origin.ReplaceAllString(printed, ""); a != b {
		t.Errorf("printed\n%s, want\n%s", a, b)
	}
	fields := len(setting.Fields(&want.Config)) +
		reflect.TypeFor[Flags]().NumField() - len([]string{"Config", "File", "PrintConfig"})
	if n := strings.Count(printed, "\n"); n != fields {
		t.Errorf("%d settings, want %d:\n%s", n, fields, printed)
	}
}

func TestFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"streams: 1\nmax-mesage: 2\n", `:2: "max-mesage" is not a setting`},
		{"config: x\n", `:1: "config" is not a setting`},
		{"print-config: true\n", `:1: "print-config" is not a setting`},
		{"help: true\n", `:1: "help" is not a setting`},
		{"streams: many\n", `:1: streams: `},
		{"\nmax-message: lots\n", `:2: max-message: "lots" is not a size`},
		{"shutdown-timeout: 30\n", `:1: shutdown-timeout: `},
		{"reflection: maybe\n", `:1: reflection: "maybe" is neither true nor false`},
		{"threads: 0x8\n", `:1: threads: "0x8" is no whole number, in plain digits`},
		{"threads: 01\n", `:1: threads: "01" is no whole number, in plain digits`},
		{"threads: +1\n", `:1: threads: "+1" is no whole number, in plain digits`},
		{"threads: '1'\n", `:1: threads: "1" in quotes is a text: want a number`},
		{"shm-allow-uid: [1, \"2\"]\n", `:1: shm-allow-uid: "2" in quotes is a text: want a number`},
		{"max-message: 1_0MiB\n", `:1: max-message: "1_0MiB" is not a size`},
		{"max-message: +1MiB\n", `:1: max-message: "+1MiB" is not a size`},
		{"threads: 1.5\n", `:1: threads: "1.5" is no whole number, in plain digits`},
		{"log-level: loud\n", `:1: log-level: "loud" is not one of debug, info, warn, error`},
		{"streams:\n", `:1: streams: the value is missing`},
		{"device: ''\n", `:1: device: the value is empty`},
		{"listen: ''\n", `:1: listen: the value is empty`},
		{"listen: [a:1, '']\n", `:1: listen: the value is empty`},
		{"streams: [1, 2]\n", `:1: streams: want one value`},
		{"listen: []\n", `:1: listen: the list is empty`},
		{"listen: [a, [b]]\n", `:1: listen: item 2 is not a plain value`},
		{"listen: {a: b}\n", `:1: listen: want a value, or a list of values`},
		{"streams: 1\nhttp: x\nstreams: 2\n", `:3: streams is set a second time, first in line 1`},
		{"- streams\n", `:1: want a mapping`},
		{"streams", `:1: want a mapping`},
		{"streams: 1\n---\nstreams: 2\n", `:2: a second document`},
		{"streams: *x\n", ":1: unknown anchor"},
		{"a: [\n", ":1: did not find expected node content"},
	} {
		name := writeFile(t, c.text)
		_, _, _, err := parse(t, "--config", name)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q and the file", c.text, err, c.want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "x: &x 1\n"} {
		_, _, _, err := parse(t, "--config", writeFile(t, text))
		if ok := text != "x: &x 1\n" && text != "---\n"; (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, _, err := parse(t, "--config", t.TempDir()+"/none"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a file that isn't there: %v", err)
	}
	t.Setenv("POLYSCAN_STREAMS", "many")
	if _, _, _, err := parse(t); err == nil || !strings.Contains(err.Error(), "POLYSCAN_STREAMS") {
		t.Errorf("a bad variable: %v", err)
	}
}

// Of a program with several commands only the server's takes settings from elsewhere.
func TestOptionsOfCommand(t *testing.T) {
	var cmd struct {
		Serve struct{ Flags } `cmd:""`
		Other struct {
			Streams int
			Config  string
		} `cmd:""`
	}
	k, err := kong.New(&cmd, Options("serve")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("POLYSCAN_CONFIG", writeFile(t, "http: x:1\n"))
	t.Setenv("POLYSCAN_STREAMS", "7")
	if _, err := k.Parse([]string{"other"}); err != nil || cmd.Other.Streams != 0 || cmd.Other.Config != "" ||
		cmd.Serve.HTTP != "" {
		t.Errorf("other: %+v, %v", cmd, err)
	}
	if _, err := k.Parse([]string{"serve"}); err != nil || cmd.Serve.Streams != 7 || cmd.Serve.HTTP != "x:1" {
		t.Errorf("serve: %+v, %v", cmd, err)
	}
	if _, err := kong.New(&cmd, Options("none")...); err == nil {
		t.Error("a command that isn't there: no error")
	}
}

func FuzzFile(f *testing.F) {
	for _, s := range []string{"streams: 1\n", "listen: [a, 'b,c']\nmax-message: 1MiB\n", "a: &b [*b]\n",
		"? [x]\n: y\n", "---\n...\n", "<<: {streams: 1}\n"} {
		f.Add(s)
	}
	var cmd struct{ Flags }
	k, err := kong.New(&cmd, Options("")...)
	if err != nil {
		f.Fatal(err)
	}
	flags := settings(k.Model.Flags)
	f.Fuzz(func(t *testing.T, text string) {
		var got file
		if err := got.parse("f.yaml", []byte(text), flags); err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Errorf("%q: %v doesn't name the file", text, err)
			}
			return
		}
		for name, v := range got.values {
			if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == name }) || v.Line < 1 ||
				v.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
				t.Errorf("%q: %s", text, fmt.Sprint(name, v))
			}
		}
	})
}
