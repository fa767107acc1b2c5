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
	// It is for this machine alone.
	f, _, _, err := parse(t, "--config", writeFile(t, string(text)))
	if err != nil || f.RecipeDir == "" {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, a := range append(f.Listen, f.HTTP) {
		if !strings.HasPrefix(a, "unix:") && !strings.HasPrefix(a, "localhost:") {
			t.Errorf("the example listens on %s, for everybody", a)
		}
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

// Alerts fire when they should.
func TestAlertsFire(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool here")
	}
	if out, err := exec.Command("promtool", "test", "rules", "../deploy/alerts_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
