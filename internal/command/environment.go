package command

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/spelling"
)

// EnvPrefix begins the variables of the environment that are settings.
const EnvPrefix = "POLYSCAN_"

// Misspelt finds variables whose names are almost those of the command's settings, or are these in small letters, and
// says of each which setting was probably meant: nobody reads its value. Other variables are a matter of other programs.
func Misspelt(k *kong.Context, environ []string) (texts []string) {
	var known, words []string
	for _, f := range k.Flags() {
		for _, name := range f.Envs {
			known, words = append(known, name), append(words, strings.ToLower(strings.TrimPrefix(name, EnvPrefix)))
		}
	}
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if runtime.GOOS == "windows" { // where letters of either case are the same
			name = strings.ToUpper(name)
		}
		word, ours := strings.CutPrefix(name, EnvPrefix)
		if !ours || slices.Contains(known, name) {
			continue
		}
		if near := spelling.Nearest(word, words); near != "" {
			texts = append(texts, fmt.Sprintf("environment %s: there is no such setting; did you mean %s?", name,
				known[slices.Index(words, near)]))
		}
	}
	return texts
}
