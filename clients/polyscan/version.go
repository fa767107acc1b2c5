package main

// polyscan version.

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/polyscan/polyscan/server/drivers"
)

type versionCmd struct {
	// Print a JSON object.
	JSON bool `name:"json"`
}

func (c *versionCmd) Help() string {
	return `
Prints the version of this build, the Go release it was built with, and the devices that it can use.

Examples:

    polyscan version
    polyscan version --json
`
}

func (c *versionCmd) Run(e *env) error {
	if c.JSON {
		return writeJSON(e.stdout, struct {
			Version string   `json:"version"`
			Go      string   `json:"go"`
			OS      string   `json:"os"`
			Arch    string   `json:"arch"`
			Drivers []string `json:"drivers"`
		}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, drivers.Names()})
	}
	_, err := fmt.Fprintln(e.stdout, versionLine())
	return err
}

func versionLine() string {
	return fmt.Sprintf("polyscan %s %s %s/%s, devices: %s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		strings.Join(drivers.Names(), ", "))
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit + dirty
}
