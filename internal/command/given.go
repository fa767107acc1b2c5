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

// Given refuses values on the command line that would be taken as if the flag weren't there.
//
// An empty text is a variable of a script that isn't set, and taken as no flag it would change what the command does:
// --addr "$ADDR" would compute in this process. A number or time of 0 is the same of a flag without a default: whoever
// asks for --timeout 0 or --count 0 gets neither. Flags that have a meaning for 0 carry the tag zero, and those with a
// default check it themselves.
func Given(k *kong.Context) error {
	for _, p := range k.Path {
		f := p.Flag
		if f == nil || p.Resolved {
			continue
		}
		switch v := k.FlagValue(f); f.Target.Kind() {
		case reflect.String:
			if v == "" {
				return fmt.Errorf("--%s: the value is empty", f.Name)
			}
		case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float64:
			if !f.HasDefault && !f.Tag.Has("zero") && reflect.ValueOf(v).IsZero() {
				return fmt.Errorf("--%s %v: must be more than 0; leave the flag out for the default", f.Name, v)
			}
		}
	}
	return nil
}
