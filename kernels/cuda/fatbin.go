//go:build cuda

// The kernels, compiled by kernels/cu/build.sh.

package cuda

import "embed"

//go:embed fatbin/*.fatbin fatbin/BUILD
var fatbins embed.FS

// fatbin returns a compiled source file.
func fatbin(file string) (string, error) {
	b, err := fatbins.ReadFile("fatbin/" + file + ".fatbin")
	return string(b), err
}
