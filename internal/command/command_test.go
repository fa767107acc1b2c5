package command

import (
	"embed"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

type grammar struct {
	Level int      `help:"How loud." group:"sound"`
	Sing  struct{} `cmd:"" help:"Sing."`
}

func TestRun(t *testing.T) {
	const done, wrong = 7, 8
	for _, x := range []struct {
		args []string
		code int
	}{
		{[]string{"sing", "--level", "3"}, done},
		{[]string{"sing", "--help"}, 0},
		{[]string{"sing", "--level", "9"}, 9}, // leaves while it runs
		{[]string{"sing", "--level", "x"}, wrong},
		{[]string{"dance"}, wrong},
	} {
		var g grammar
		var stdout, stderr strings.Builder
		prepared := false
		code := Run(&g, x.args, &stdout, &stderr, func(*kong.Kong) {
			prepared = true
		}, func(k *kong.Context, err error) int {
			var bad *kong.ParseError
			switch {
			case (k == nil) == (err == nil):
				t.Errorf("%q: context %v and error %v", x.args, k, err)
			case errors.As(err, &bad):
				return wrong
			case g.Level == 9:
				k.Exit(9)
			}
			return done
		}, kong.Name("choir"))
		if code != x.code || !prepared || strings.Contains(stdout.String(), "How loud.") != (x.code == 0) ||
			stderr.Len() > 0 {
			t.Errorf("%q: %d\n%s%s", x.args, code, &stdout, &stderr)
		}
	}
}

// Only the command that arguments name is made, and all where they name none.
func TestRunMakesOneCommand(t *testing.T) {
	type choir struct {
		Sing  struct{} `cmd:""`
		Dance struct{} `cmd:"" name:"hop"`
		Loud  bool
	}
	for arg, want := range map[string]string{"sing": "sing", "hop": "hop", "dance": "sing hop", "--loud": "sing hop"} {
		Run(&choir{}, []string{arg, "sing"}, io.Discard, io.Discard, func(k *kong.Kong) {
			var names []string
			for _, n := range k.Model.Children {
				names = append(names, n.Name)
			}
			if got := strings.Join(names, " "); got != want || len(k.Model.Flags) != 2 {
				t.Errorf("%s: commands %s and %d flags, want %s and 2", arg, got, len(k.Model.Flags), want)
			}
		}, func(*kong.Context, error) int { return 0 })
	}
}

// Arguments are taken as they are, or not at all.
func TestRunEncoding(t *testing.T) {
	for arg, want := range map[string]string{
		"b\xff.png": `"b\xff.png": it is no UTF-8`, "--level=\xff": `"--level=\xff": it is no UTF-8`,
	} {
		Run(&grammar{}, []string{"sing", arg}, io.Discard, io.Discard, nil, func(_ *kong.Context, err error) int {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", arg, err)
			}
			return 0
		})
	}
}

// A panic that isn't kong's leaving goes on.
func TestRunPanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "torn" {
			t.Errorf("recovered %v", r)
		}
	}()
	Run(&grammar{}, []string{"sing"}, &strings.Builder{}, &strings.Builder{}, nil, func(*kong.Context, error) int {
		panic("torn")
	})
}

//go:embed command_test.go
var source embed.FS

type within struct {
	// Where the choir stands: ${enum}.
	Place string `enum:"here,there" default:"here" placeholder:"PLACE"`
}

type commented struct {
	// How many
	// sing.
	//
	// This is for readers.
	Voices int
	// Not this.
	Level int `help:"How loud."`
	within
	Sing singing `cmd:"" help:"Sing."`
}

type singing struct {
	// The song to sing.
	Song string `arg:""`
}

func TestComments(t *testing.T) {
	var g commented
	var stdout strings.Builder
	run := func(*kong.Context, error) int { return 1 }
	Run(&g, []string{"--help"}, &stdout, io.Discard, nil, run, Comments(source))
	for _, want := range []string{"How many sing.\n", "How loud.\n", "stands: here,there. Default: here.\n"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "readers") || strings.Contains(stdout.String(), "Not this") {
		t.Errorf("too much in\n%s", &stdout)
	}
	stdout.Reset()
	Run(&g, []string{"sing", "--help"}, &stdout, io.Discard, nil, run, Comments(source))
	if !strings.Contains(stdout.String(), "The song to sing.\n") {
		t.Errorf("no song in\n%s", &stdout)
	}
}
