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
		Addr string `env:"POLYSCAN_ADDR"`
		Credentials
	}
	var grammar struct {
		Ask  connected `cmd:""`
		Help struct{}  `cmd:""`
	}
	for name, want := range map[string]string{
		"POLYSCAN_ADR":        "prog: warning: environment POLYSCAN_ADR: there is no such setting; did you mean POLYSCAN_ADDR?\n",
		"POLYSCAN_addr":       "prog: warning: environment POLYSCAN_addr: there is no such setting; did you mean POLYSCAN_ADDR?\n",
		"POLYSCAN_TOKENFILE":  "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAN_ADDR":       "",
		"POLYSCAN_LISTEN":     "", // of the server
		"POLYSCAN_FRAME_IDLE": "",
		"POLYSCAN_SEED":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "x:1")
			for _, arg := range []string{"ask", "help"} {
				var said bytes.Buffer
				ran := false
				code := Command{Name: "prog", Sources: Sources, Usage: 2}.Run(&grammar, []string{arg}, io.Discard, &said, nil,
					func(*kong.Context, io.Writer) int { ran = true; return 0 })
				if code != 0 || !ran || arg == "ask" && (said.Len() > 0) != (want != "") ||
					arg == "ask" && !strings.Contains(said.String(), want) || arg == "help" && said.Len() > 0 {
					t.Errorf("%s: %d, %q, want %q", arg, code, &said, want)
				}
			}
		})
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
