package main

import (
	"context"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVersionAndHelp: what people try first works, in every spelling.
func TestVersionAndHelp(t *testing.T) {
	if got, want := succeed(t, "--version"), succeed(t, "version"); got != want || !strings.HasPrefix(got, "polyscan ") {
		t.Errorf("--version prints %q, version %q", got, want)
	}
	for _, c := range [][2]string{{"help", "--help"}, {"help reduce", "reduce --help"},
		{"help recipe put", "recipe put --help"}} {
		if got, want := succeed(t, strings.Fields(c[0])...), succeed(t, strings.Fields(c[1])...); got != want || got == "" {
			t.Errorf("%s prints\n%s", c[0], got)
		}
	}
	if stdout, stderr, code := polyscan(t, "help", "frobnicate"); code != exitUsage || stdout != "" ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

// TestUnwritableOutput: what standard output can't take is an error, of one line, and not one of the server.
func TestUnwritableOutput(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	board := frames + "board.png -r " + frames + "board.regions.json"
	for _, args := range []string{
		"--help", "--version", "version", "version --json", "help", "completion bash", "device",
		"reduce " + board, "reduce " + board + " --json", "reduce " + board + " --fail-on-reject",
		"mask " + board + " -o -", "lowpoly " + frames + "board.png -o - --points 100",
		"stream " + frames + "conveyor -r " + frames + "conveyor/regions.json",
		"stream " + frames + "conveyor -r " + frames + "conveyor/regions.json --json --fail-on-reject",
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		code := run(context.Background(), strings.Fields(args), strings.NewReader(""), full, &errs)
		full.Close()
		if code != exitUsage || errs.String() != "polyscan: standard output: no space left on device\n" {
			t.Errorf("%s: exit %d, %q", args, code, errs.String())
		}
	}
}

// TestEveryFlagHasHelp: the help of a flag is the comment above it, which is read from files that the program holds. A
// file that is missing there shows as flags without a text.
func TestEveryFlagHasHelp(t *testing.T) {
	flag := regexp.MustCompile(`^ +(?:-\w, )?--[a-z0-9-]+(?:=\S+)?$`)
	commands := slices.Sorted(maps.Keys(commandsOf(reflect.TypeFor[app](), "", map[string]reflect.Type{})))
	if len(commands) < 30 {
		t.Errorf("only %q are commands", commands)
	}
	for _, c := range commands {
		lines := strings.Split(succeed(t, append(strings.Fields(c), "--help")...), "\n")
		for i, line := range lines {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			next := strings.Join(lines[i+1:min(i+2, len(lines))], "")
			if flag.MatchString(line) && !strings.HasPrefix(next, strings.Repeat(" ", indent+8)) {
				t.Errorf("%s: no help for %s", c, strings.TrimSpace(line))
			}
			if len(line) > 110 && !strings.HasPrefix(line, "    polyscan ") {
				t.Errorf("%s: %d columns: %s", c, len(line), line)
			}
		}
	}
	for _, want := range []string{"Default: 0.25.", "Default: 500."} {
		got := strings.Join(strings.Fields(succeed(t, "diffuse", "--help")), " ")
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
