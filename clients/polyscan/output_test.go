package main

import (
	"context"
	"os"
	"strings"
	"testing"
)

// TestVersionAndHelp: what people try first works, in every spelling.
func TestVersionAndHelp(t *testing.T) {
	if got, want := succeed(t, "--version"), succeed(t, "version"); got != want || !strings.HasPrefix(got, "polyscan ") {
		t.Errorf("--version prints %q, version %q", got, want)
	}
	for _, c := range [][2]string{{"help", "--help"}, {"help reduce", "reduce --help"}, {"help recipe put", "recipe put --help"}} {
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
