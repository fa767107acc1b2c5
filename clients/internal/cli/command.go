package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/command"
)

// A Command is what tells one program of this module from another. How arguments are parsed, help is written, and wrong
// arguments are refused is the same for all of them.
type Command struct {
	Name, Description string
	Devices           []string // that it can compute on itself
	Sources           fs.FS    // whose comments are the help of flags
	Usage             int      // exit code of wrong arguments, and of output that got lost
}

// Run parses arguments by a grammar and runs what they say. run gets standard output that remembers its errors and
// returns the exit code; options come before those of the command, and prepare may be nil, as in [command.Run].
func (c Command) Run(
	grammar any, args []string, stdout, stderr io.Writer, prepare func(*kong.Kong),
	run func(k *kong.Context, stdout io.Writer) int, options ...kong.Option,
) int {
	return WithOutput(c.Name, stdout, stderr, c.Usage, func(out io.Writer) int {
		return command.Run(grammar, args, out, stderr, prepare, func(k *kong.Context, err error) int {
			if err == nil {
				for _, text := range command.Environment(k, os.Environ()) {
					if command.Strict(k) {
						fmt.Fprintf(stderr, "%s: %s (--strict)\n", c.Name, OneLine(text))
						return c.Usage
					}
					fmt.Fprintf(stderr, "%s: warning: %s\n", c.Name, OneLine(text))
				}
				return run(k, out)
			}
			if errors.As(err, new(*command.OutputError)) {
				return 0 // which is not the last word: WithOutput knows of it
			}
			fmt.Fprintf(stderr, "%s: %s (see %s)\n", c.Name, OneLine(command.Words(err)), c.help(err))
			return c.Usage
		}, append([]kong.Option{
			command.Comments(c.Sources, Sources),
			kong.Name(c.Name),
			kong.Description(strings.TrimPrefix(c.Description, "\n")),
			kong.WithBeforeApply(given),
			kong.Bind(command.VersionOf(c.Name, c.Devices)),
		}, options...)...)
	})
}

// given leaves the settings of a server to polyscand's rules, in which an empty one and 0 have a meaning.
func given(k *kong.Context) error {
	if k.Command() == "serve" {
		return nil
	}
	return command.Given(k)
}

// help is where wrong arguments are explained: by the command that they name, or by all.
func (c Command) help(err error) string {
	var pe *kong.ParseError
	if errors.As(err, &pe) && pe.Context != nil {
		if n := pe.Context.Selected(); n != nil && n.Tag.Default == "" {
			return strings.Replace(c.Name+" "+n.Path()+" --help", c.Name+" "+c.Name+" ", c.Name+" ", 1)
		}
	}
	return c.Name + " --help"
}
