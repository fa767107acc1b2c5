package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"U7 größer 板": "U7 größer 板",
		"a\x1b[2Jb":   `a\x1b[2Jb`,
		"a\nb\tc":     `a\nb\tc`,
		"\u202ea":     `\u202ea`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := OneLine(" a\n\tb\x07 "); got != `a b\a` {
		t.Errorf("OneLine: %q", got)
	}
}

func TestPaint(t *testing.T) {
	for _, c := range []struct {
		style      Style
		text, want string
	}{{Green, "ok", "\x1b[32mok\x1b[0m"}, {Plain, "ok", "ok"}, {Red, "", ""}} {
		if got := c.style.Paint(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.style, got, c.want)
		}
	}
	if IsTerminal(&bytes.Buffer{}) || HasColours(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
}

func TestCredentials(t *testing.T) {
	for _, c := range []struct {
		flags   Credentials
		secure  bool
		options int
	}{
		{Credentials{}, false, 0},
		{Credentials{TokenFile: "t"}, false, 1},
		{Credentials{TLS: true}, true, 1},
		{Credentials{CA: "ca", TokenFile: "t"}, true, 2},
		{Credentials{Cert: "c", Key: "k"}, true, 1},
		{Credentials{ServerName: "n"}, true, 1},
	} {
		to := c.flags.Connection("h:1")
		if c.flags.Secure() != c.secure || len(c.flags.Options()) != c.options || to.Addr != "h:1" || to.TLS != c.secure ||
			to.Token != (c.flags.TokenFile != "") {
			t.Errorf("%+v: secure %v, %d options, %+v", c.flags, c.flags.Secure(), len(c.flags.Options()), to)
		}
	}
}

// A variable that is almost a setting of the command gives a warning that names both; others are not looked at.
func TestMisspeltEnvironment(t *testing.T) {
	type connected struct {
		Addr   string `env:"POLYSCAN_ADDR" aka:"server,address"`
		Strict bool
		Credentials
	}
	var grammar struct {
		Ask  connected `cmd:""`
		Help struct{}  `cmd:""`
	}
	for name, want := range map[string]string{
		"POLYSCAN_ADR":                "prog: warning: environment POLYSCAN_ADR: there is no such setting; did you mean POLYSCAN_ADDR?\n",
		"POLYSCAN_addr":               "prog: warning: environment POLYSCAN_addr: there is no such setting; did you mean POLYSCAN_ADDR?\n",
		"POLYSCAN_TOKENFILE":          "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAN_SERVER":             "environment POLYSCAN_SERVER: there is no such setting; did you mean POLYSCAN_ADDR?",
		"POLYSCAN_ADRESS":             "did you mean POLYSCAN_ADDR?", // as address
		"POLYSCAN_TOKEN":              "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAND_ADDR":              "environment POLYSCAND_ADDR: there is no such setting; did you mean POLYSCAN_ADDR?",
		"polyscan_addr":               "did you mean POLYSCAN_ADDR?",
		"POLYSCAND_PROGRAM":           "",
		"POLYSCAN_PORT":               "", // which Kubernetes sets, as those below
		"POLYSCAN_PORT_7465_TCP_ADDR": "",
		"POLYSCAN_SERVICE_HOST":       "",
		"POLYSCAND_SERVICE_PORT_GRPC": "",
		"POLYSCAN_ADDR":               "",
		"POLYSCAN_LISTEN":             "", // of the server
		"POLYSCAN_FRAME_IDLE":         "",
		"POLYSCAN_SEED":               "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "x:1")
			for _, arg := range []string{"ask", "help"} {
				code, ran, said := runsWith(&grammar, arg)
				if code != 0 || !ran || arg == "ask" && (said.Len() > 0) != (want != "") ||
					arg == "ask" && !strings.Contains(said.String(), want) || arg == "help" && said.Len() > 0 {
					t.Errorf("%s: %d, %q, want %q", arg, code, said, want)
				}
			}
			if code, ran, said := runsWith(&grammar, "ask", "--strict"); want != "" && (code != 2 || ran ||
				!strings.HasSuffix(said.String(), "? (--strict)\n")) || want == "" && said.Len() > 0 {
				t.Errorf("--strict: %d, %v, %q", code, ran, said)
			}
		})
	}
}

func runsWith(grammar any, args ...string) (code int, ran bool, said *bytes.Buffer) {
	said = &bytes.Buffer{}
	code = Command{Name: "prog", Sources: Sources, Usage: 2}.Run(grammar, args, io.Discard, said, nil,
		func(*kong.Context, io.Writer) int { ran = true; return 0 })
	return code, ran, said
}

// A variable that is empty is told where no flag is given instead, and refused by --strict.
func TestEmptyEnvironment(t *testing.T) {
	t.Setenv("POLYSCAN_ADDR", "")
	var grammar struct {
		Addr   string `env:"POLYSCAN_ADDR"`
		Strict bool
	}
	const says = "environment POLYSCAN_ADDR: the value is empty, as if there were no --addr"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 0, "prog: warning: " + says + "\n"},
		{[]string{"--strict"}, 2, "prog: " + says + " (--strict)\n"},
		{[]string{"--addr=h:1"}, 0, ""},
	} {
		if code, _, said := runsWith(&grammar, c.args...); code != c.code || said.String() != c.says {
			t.Errorf("%q: %d, %q, want %d, %q", c.args, code, said, c.code, c.says)
		}
	}
	var needed struct {
		Addr string `env:"POLYSCAN_ADDR" required:"" placeholder:"ADDR"`
	}
	if code, ran, said := runsWith(&needed); code != 2 || ran ||
		said.String() != "prog: missing flags: --addr=ADDR (see prog --help)\n" {
		t.Errorf("one that has to be there: %d, %v, %q", code, ran, said)
	}
}

// Output that is lost is no success, and no other code is replaced by it.
func TestWithOutput(t *testing.T) {
	for _, c := range []struct {
		out        io.Writer
		code, want int
		says       string
	}{
		{&bytes.Buffer{}, 0, 0, ""},
		{&bytes.Buffer{}, 3, 3, ""},
		{full{}, 0, 2, "prog: standard output: no space left\n"},
		{full{}, 3, 3, ""},
	} {
		var said bytes.Buffer
		got := WithOutput("prog", c.out, &said, 2, func(out io.Writer) int {
			fmt.Fprintln(out, "text")
			return c.code
		})
		if got != c.want || said.String() != c.says {
			t.Errorf("%T, %d: %d and %q, want %d and %q", c.out, c.code, got, &said, c.want, c.says)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
