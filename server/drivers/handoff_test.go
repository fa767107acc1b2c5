//go:build !cuda && unix

package drivers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The test binary is both executables: under libexec it plays the one with the CUDA backend.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	elsewhere := filepath.Base(filepath.Dir(self)) == "libexec"
	device, child := os.LookupEnv("HANDOFF_DEVICE")
	switch {
	case os.Args[0] == probeName && elsewhere:
		if failure := os.Getenv("HANDOFF_FAILURE"); failure != "" {
			fmt.Println(failure)
			os.Exit(1)
		}
		os.Exit(0)
	case child && elsewhere:
		inherited, err := io.ReadAll(os.NewFile(3, "inherited"))
		fmt.Printf("elsewhere %q %d %q %v\n", os.Args, os.Getpid(), inherited, err)
		os.Exit(7)
	case child:
		if err := Prepare(device); err != nil {
			fmt.Println("Prepare:", err)
		}
		d, err := Open(device, Options{})
		if err == nil {
			_, err = d.Open(0)
		}
		fmt.Printf("here %q %t %t %v\n", Names(), errors.Is(err, driver.ErrNoDevice), errors.Is(err, ErrUnknown), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program puts the test binary into a folder, as a program and, where it is to be there, under libexec.
func program(t *testing.T, both bool) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "libexec"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(dir, "program")}
	if both {
		names = append(names, filepath.Join(dir, "libexec", "program"))
	}
	for _, name := range names {
		if err := os.Link(self, name); err == nil {
			continue
		}
		text, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(name, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return names[0]
}

func TestPrepare(t *testing.T) {
	const noGPU = `Error in initialization, please refer to "https://docs.nvidia.com" for details on: NoDevice`
	const noLibrary = "x: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file"
	with, without := program(t, true), program(t, false)
	for _, c := range []struct {
		what, program, device, failure string
		elsewhere                      bool
		want                           []string
	}{
		{"a GPU", with, "cuda", "", true, nil},
		{"a GPU, and auto", with, "auto", "", true, nil},
		{"a GPU, and no device named", with, "", "", true, nil},
		{"a GPU that isn't wanted", with, "cpu", "", false, []string{`["cuda" "cpu"]`, "false false <nil>"}},
		{"no GPU", with, "cuda", noGPU, false, []string{"true false", "cuInit: NoDevice"}},
		{"no GPU, and auto", with, "auto", noGPU, false, []string{"false false <nil>"}},
		{"no libcuda", with, "cuda", noLibrary, false, []string{"true false", "libcuda.so.1: cannot open"}},
		{"no libexec", without, "cuda", "", false, []string{`["cpu"]`, "false true", `"cuda"`}},
		{"no libexec, and auto", without, "auto", "", false, []string{"false false <nil>"}},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("from before"); err != nil {
			t.Fatal(err)
		}
		w.Close()
		cmd := exec.Command(c.program, "one", "two words")
		cmd.Args[0] = "as it was called"
		cmd.Env = append(os.Environ(), "HANDOFF_DEVICE="+c.device, "HANDOFF_FAILURE="+c.failure)
		cmd.ExtraFiles = []*os.File{r}
		out, err := cmd.Output()
		r.Close()
		if c.elsewhere {
			c.want = []string{fmt.Sprintf(`elsewhere ["as it was called" "one" "two words"] %d "from before" <nil>`,
				cmd.Process.Pid)}
		}
		if code := cmd.ProcessState.ExitCode(); code != map[bool]int{false: 0, true: 7}[c.elsewhere] {
			t.Errorf("%s: exit code %d (%v)", c.what, code, err)
		}
		for _, w := range c.want {
			if !strings.Contains(string(out), w) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("%s: no %q in one line: %s", c.what, w, out)
			}
		}
	}
}

// A program that can't be started is an error, not the CPU.
func TestPrepareFails(t *testing.T) {
	name := program(t, false)
	// The probe runs by its path as well, so that only a file which is gone in between gets past it.
	script := "#!/bin/sh\nrm \"$0\"\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(name), "libexec", "program"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	cmd.Env = append(os.Environ(), "HANDOFF_DEVICE=cuda")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "Prepare: drivers: ") {
		t.Errorf("%v: %s", err, out)
	}
}
