// Package console holds the files of the console, the page in the browser: its sources in src, and what build.sh makes
// of them in dist, which is committed so that a build needs nothing but Go.
package console

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files are those of the page.
func Files() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is good
	}
	return sub
}
