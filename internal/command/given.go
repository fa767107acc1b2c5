package command

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

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
		if Empty(k, f) {
			return fmt.Errorf("--%s: the value is empty", f.Name)
		}
		switch v := k.FlagValue(f); f.Target.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float64:
			if !f.HasDefault && !f.Tag.Has("zero") && reflect.ValueOf(v).IsZero() {
				return fmt.Errorf("--%s %v: must be more than 0; leave the flag out for the default", f.Name, v)
			}
		}
	}
	for _, f := range k.Flags() { // kong takes an empty variable for one that is set
		if f.Required && Empty(k, f) && slices.ContainsFunc(f.Envs, func(name string) bool { return os.Getenv(name) == "" }) {
			return fmt.Errorf("missing flags: %s", f.Summary())
		}
	}
	return Idle(k, func(f *kong.Flag) bool {
		said := func(p *kong.Path) bool { return p.Flag == f && !p.Resolved }
		return (!f.IsBool() || on(k, f.Value)) && slices.ContainsFunc(k.Path, said)
	})
}

// Empty says that the value of a flag is an empty text or list, or a list with an empty text.
func Empty(k *kong.Context, f *kong.Flag) bool {
	v := reflect.ValueOf(k.FlagValue(f))
	switch v.Kind() {
	case reflect.String:
		return v.Len() == 0
	case reflect.Slice:
		list, _ := v.Interface().([]string)
		return v.Len() == 0 || slices.Contains(list, "")
	}
	return false
}

// Idle refuses flags that are given and would have no effect. Tags say what flags and arguments these depend on:
//
//	needs:"a"        there has to be --a; needs:"a|b=x" wants either --a, or --b of the value x
//	needs:"a,b"      there have to be both
//	without:"a|b=x"  there may be none of them
//	idle:"a: why"    of a command: it shares the declaration of --a with others, and has no use for it
//
// A command that has none of the flags that are needed isn't concerned.
func Idle(k *kong.Context, given func(*kong.Flag) bool) error {
	for _, f := range k.Flags() {
		if !given(f) {
			continue
		}
		if n := k.Selected(); n != nil {
			if name, why := idle(n); name == f.Name {
				return fmt.Errorf("--%s has no effect on %s: %s", f.Name, n.Name, why)
			}
		}
		for need := range strings.SplitSeq(f.Tag.Get("needs"), ",") {
			if some, met := terms(k, need); len(some) > 0 && !met {
				return fmt.Errorf("--%s has no effect without %s", f.Name, strings.Join(some, " or "))
			}
		}
		for term := range strings.SplitSeq(f.Tag.Get("without"), "|") {
			if some, met := terms(k, term); met {
				return fmt.Errorf("--%s has no effect with %s", f.Name, some[0])
			}
		}
	}
	return nil
}

// idle is the flag that a command has no use for, and why.
func idle(n *kong.Node) (flag, why string) {
	flag, why, _ = strings.Cut(n.Tag.Get("idle"), ": ")
	return flag, why
}

// hideIdle leaves such flags out of the help.
func hideIdle(n *kong.Node) {
	for _, child := range n.Children {
		for _, f := range child.Flags {
			if name, _ := idle(child); f.Name == name {
				f.Hidden = true
			}
		}
		hideIdle(child)
	}
}

// terms are the flags of an expression of Idle that the command has, as they are written, and whether one is given.
func terms(k *kong.Context, any string) (some []string, met bool) {
	for term := range strings.SplitSeq(any, "|") {
		name, value, equal := strings.Cut(term, "=")
		v, flag := find(k, name)
		switch {
		case v == nil:
			continue
		case !flag:
			some = append(some, "<"+name+">")
		case equal:
			some = append(some, "--"+name+" "+value)
		default:
			some = append(some, "--"+name)
		}
		met = met || !equal && on(k, v) || equal && fmt.Sprint(valueOf(k, v)) == value
	}
	return some, met
}

// find is the flag or argument of a name.
func find(k *kong.Context, name string) (v *kong.Value, flag bool) {
	for _, f := range k.Flags() {
		if f.Name == name {
			return f.Value, true
		}
	}
	if n := k.Selected(); n != nil {
		for _, a := range n.Positional {
			if a.Name == name {
				return a, false
			}
		}
	}
	return nil, false
}

// valueOf is the value of a flag or argument, which kong may not have stored yet.
func valueOf(k *kong.Context, v *kong.Value) reflect.Value {
	for _, p := range k.Path {
		if p.Positional == v || p.Flag != nil && p.Flag.Value == v {
			return k.Value(p)
		}
	}
	return v.Target
}

// on reports whether a flag or argument has a value, and not false, 0 or an empty one.
func on(k *kong.Context, v *kong.Value) bool {
	r := valueOf(k, v)
	return !r.IsZero() && (r.Kind() != reflect.Slice || r.Len() > 0)
}
