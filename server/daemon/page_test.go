package daemon

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/internal/setting"
)

var update = flag.Bool("update", false, "write docs/settings.md")

const pageHead = `# Settings of polyscand

Each can be given as a flag ('--max-message 64MiB'), as a variable of the environment ('POLYSCAN_MAX_MESSAGE'), or as a
key of the YAML file that '--config' names ('max-message: 64MiB'), in this order of precedence. '--print-config' shows
what comes of them and where each comes from. Wrong settings end the server with exit code 2. 'polyscan serve' has the
same.

<!-- Written by go test ./server/daemon -run TestSettingsPage -update from server.Config and daemon.Flags. -->
`

// The page of settings is what their declarations say.
func TestSettingsPage(t *testing.T) {
	var cmd struct{ Flags }
	k, err := kong.New(&cmd, Options("")...)
	if err != nil {
		t.Fatal(err)
	}
	fields := setting.Fields(&cmd.Flags)
	help := command.Help(source, server.ConfigSource)
	groups, tables := []string{}, map[string]*strings.Builder{}
	for _, f := range settings(k.Model.Flags) {
		group := "General"
		if f.Group != nil {
			group = f.Group.Title
		}
		if tables[group] == nil {
			groups = append(groups, group)
			tables[group] = &strings.Builder{}
		}
		what := help(k.Model, f.Value)
		i := slices.IndexFunc(fields, func(s setting.Field) bool { return s.Name == f.Name })
		if s := fields[i]; s.Value.CanInt() {
			least, most := s.Bounds()
			_, bounded := s.Tag.Lookup("max")
			if least > 1 {
				what += fmt.Sprintf(" At least %s.", s.Format(least))
			}
			if bounded {
				what += fmt.Sprintf(" At most %s.", s.Format(most))
			}
		}
		std := ""
		if f.Default != "" {
			std = "`" + f.Default + "`"
			what = strings.Replace(what, " Default: "+f.Default+".", "", 1)
		}
		fmt.Fprintf(tables[group], "| `%s` | %s | %s |\n", f.Name, std, strings.ReplaceAll(what, "|", `\|`))
	}
	page := strings.ReplaceAll(pageHead, "'", "`")
	for _, g := range groups {
		page += "\n## " + g + "\n\n| setting | default | |\n|---|---|---|\n" + tables[g].String()
	}
	const name = "../../docs/settings.md"
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(name); err != nil || string(now) != page {
		t.Errorf("%s is not what the settings say (%v): go test ./server/daemon -run TestSettingsPage -update", name, err)
	}
}
