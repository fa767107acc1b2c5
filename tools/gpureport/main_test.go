package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sources writes two kernels and a header whose walk order differs from the
// order of their paths ("a.cu" sorts before "a/...", a walk may not).
func sources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mask_reduce.cu": "__global__ void k() {}\n",
		"a/x.cu":         "// x\n",
		"a.cuh":          "#pragma once\n",
		"README.md":      "not a source\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHashAsCoreutils(t *testing.T) {
	dir := sources(t)
	got, n, err := hash(os.DirFS(dir))
	if err != nil || n != 2 {
		t.Fatalf("hash: %d .cu files, error %v; want 2, none", n, err)
	}
	// From coreutils, by the command in the package comment.
	const want = "9ef332f6b5d851053de071e4102a4d7b8fc48b62e03e0dfbc33a7e4c401ec18b"
	if got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("no sha256sum here to ask as well")
	}
	cmd := exec.Command("sh", "-c",
		`find . -name '*.cu' -o -name '*.cuh' | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum | sha256sum`)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if shell, _, _ := strings.Cut(string(out), " "); shell != got {
		t.Errorf("hash = %s, coreutils say %s", got, shell)
	}
}

func TestCheck(t *testing.T) {
	sum, _, err := hash(os.DirFS(sources(t)))
	if err != nil {
		t.Fatal(err)
	}
	good := `{"source_sha256":"` + sum +
		`","device":"H200","driver":"550.1","tests":{"passed":3,"failed":0,"skipped":0},"benchmarks":[{}]}`
	cases := []struct {
		name    string
		change  func(dir string)
		report  string
		wantErr string // "" for success
	}{
		{"fresh", nil, good, ""},
		{"no report", nil, "", "no report of a GPU run"},
		{"kernel changed", func(dir string) {
			write(t, filepath.Join(dir, "a/x.cu"), "// y\n")
		}, good, "run the GPU suite again"},
		{"header changed", func(dir string) {
			write(t, filepath.Join(dir, "a.cuh"), "\n")
		}, good, "run the GPU suite again"},
		{"kernel added", func(dir string) {
			write(t, filepath.Join(dir, "b.cu"), "\n")
		}, good, "run the GPU suite again"},
		{"kernel renamed", func(dir string) {
			if err := os.Rename(filepath.Join(dir, "a/x.cu"), filepath.Join(dir, "a/z.cu")); err != nil {
				t.Fatal(err)
			}
		}, good, "run the GPU suite again"},
		{"other file changed", func(dir string) { write(t, filepath.Join(dir, "README.md"), "\n") }, good, ""},
		{"no device", nil, strings.Replace(good, "H200", "", 1), "a run without a GPU"},
		{"failed", nil, strings.Replace(good, `"failed":0`, `"failed":1`, 1), "1 failed"},
		{"skipped", nil, strings.Replace(good, `"skipped":0`, `"skipped":2`, 1), "2 skipped"},
		{"nothing ran", nil, strings.Replace(good, `"passed":3`, `"passed":0`, 1), "0 passed"},
		{"no benchmarks", nil, strings.Replace(good, `[{}]`, `[]`, 1), "benchmarks: empty"},
		{"not JSON", nil, good[:40], "gpu_report.json"},
		{"report without kernels", func(dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, good, "no .cu file"},
		{"neither", func(dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := sources(t)
			report := filepath.Join(t.TempDir(), "gpu_report.json")
			if c.report != "" {
				write(t, report, c.report)
			}
			if c.change != nil {
				c.change(dir)
			}
			var out bytes.Buffer
			err := run([]string{"check", dir, report}, &out)
			switch {
			case c.wantErr == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.wantErr == "" && out.Len() == 0:
				t.Error("success without a word")
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Errorf("error %v, want one with %q", err, c.wantErr)
			}
		})
	}
}
