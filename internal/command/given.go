package command

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// once refuses a flag that is given twice and holds one value: the first would be dropped in silence, and with it the
// regions file that somebody wanted to be looked at, too.
func once(k *kong.Context) error {
	seen := map[*kong.Flag]bool{}
	for _, p := range k.Path {
		f := p.Flag
		if f == nil || p.Resolved || f.IsBool() || f.IsCounter() || f.IsCumulative() {
			continue
		}
		if seen[f] {
			return fmt.Errorf("--%s is given twice, and holds one value", f.Name)
		}
		seen[f] = true
	}
	return nil
}

// NotEmpty refuses flags whose text is empty on the command line. That is a variable of a script that isn't set, and
// taken as no flag it would change what the command does: --addr "$ADDR" would compute in this process.
func NotEmpty(k *kong.Context) error {
	for _, p := range k.Path {
		f := p.Flag
		if f != nil && !p.Resolved && f.Target.Kind() == reflect.String && k.FlagValue(f) == "" {
			return fmt.Errorf("--%s: the value is empty", f.Name)
		}
	}
	return nil
}
