package daemon

// The files of server/deploy that are about this package.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The example, and what is commented out in it, are settings.
func TestExampleSettings(t *testing.T) {
	text, err := os.ReadFile("../deploy/polyscand.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if f, _, _, err := parse(t, "--config", writeFile(t, string(text))); err != nil || f.RecipeDir == "" {
		t.Errorf("%+v, %v", f, err)
	}
	all := regexp.MustCompile(`(?m)^# ([a-z-]+: )`).ReplaceAllString(string(text), "$1")
	if f, _, _, err := parse(t, "--config", writeFile(t, all)); err != nil || f.TokenFile == "" || f.MemoryBytes == 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// systemd understands the unit, and its command line is one of this package's.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../deploy/polyscand.service")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(string(text))
	if command == nil {
		t.Fatal("no ExecStart=")
	}
	args := strings.ReplaceAll(command[2], "/etc/polyscan/", "../deploy/")
	if _, _, _, err := parse(t, strings.Fields(args)...); err != nil {
		t.Errorf("%s: %v", args, err)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	verify := func(unit string) (string, error) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "polyscand.service")
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(unit, command[1], self)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", name).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(string(text)); err != nil || out != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := verify(strings.Replace(string(text), "Type=", "Typ=", 1)); err == nil && out == "" {
		t.Error("systemd-analyze verify has nothing against Typ=")
	}
}
