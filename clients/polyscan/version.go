package main

// polyscan version.

import (
	"fmt"
	"runtime"

	"github.com/polyscan/polyscan/internal/command"
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
		}{command.Build(), runtime.Version(), runtime.GOOS, runtime.GOARCH, drivers.Names()})
	}
	_, err := fmt.Fprintln(e.stdout, command.VersionOf("polyscan", drivers.Names()))
	return err
}
