// Package command has what this module's commands have in common: how kong parses their arguments.
//
// A flag's help is the comment above its field, by [Comments], so that it is written once, wraps like any comment, and
// its tags fit a line. A first paragraph of one or two sentences is the help; more paragraphs are for readers of the
// code. "${enum}" stands for the values of the enum tag, and the default needs no mention.
package command

import (
	"fmt"
	"io"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Version is a --version flag: it prints what the command's text says and leaves with 0. kong.Bind a [VersionText].
type Version bool

// VersionText is what --version prints, a line.
type VersionText string

// VersionOf is the line of a program: the version of this build, the Go release it was built with, what it runs on, and
// the devices that it can use.
func VersionOf(program string, devices []string) VersionText {
	return VersionText(fmt.Sprintf("%s %s %s %s/%s, devices: %s", program, Build(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, strings.Join(devices, ", ")))
}

// Build is the module's version, or the commit it was built from.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
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

// BeforeReset is called by kong, before anything else is looked at.
func (Version) BeforeReset(app *kong.Kong, text VersionText) error {
	_, err := io.WriteString(app.Stdout, string(text)+"\n")
	if err == nil {
		app.Exit(0)
	}
	return err
}

// exit is what kong's exit function panics with, to come back to Run.
type exit int

// Run parses arguments by a grammar, and returns what run makes of them: an exit code. Where they are wrong run gets no
// context but an error, a *kong.ParseError where it has one. Help is as wide and brief as that of all commands, and
// what kong writes goes to stdout and stderr; where kong would leave the process, such as after help, its code is
// returned and the process stays. prepare, which may be nil, sees the parser before it is used.
func Run(
	grammar any, args []string, stdout, stderr io.Writer, prepare func(*kong.Kong), run func(*kong.Context, error) int,
	options ...kong.Option,
) (code int) {
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(exit)
			if !ok {
				panic(r)
			}
			code = int(c)
		}
	}()
	parser, err := kong.New(grammar, append(append(options, others(grammar, args)...),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.WithBeforeApply(once),
		PlainNumbers,
	)...)
	if err != nil {
		panic(err) // the grammar itself is wrong: every run would fail, tests first
	}
	hideIdle(parser.Model.Node)
	if prepare != nil {
		prepare(parser)
	}
	for _, a := range args {
		if !utf8.ValidString(a) { // kong would make another text of it: the name of another file
			return run(nil, fmt.Errorf("%q: it is no UTF-8: rename what it names", a))
		}
	}
	k, err := parser.Parse(args)
	if err != nil {
		return run(nil, err)
	}
	return run(k, nil)
}

// others leaves out the commands that arguments don't ask for where their first one names a command: kong takes a
// hundredth of a second for the flags of all. A text that asks for none, such as a misspelt one, is answered with all.
func others(grammar any, args []string) []kong.Option {
	of := reflect.TypeOf(grammar).Elem()
	if len(args) == 0 || !HasCommand(of, args[0]) {
		return nil
	}
	var fields []string
	for f := range of.Fields() {
		if name, ok := commandName(f); ok && name != args[0] {
			fields = append(fields, f.Name)
		}
	}
	return []kong.Option{kong.IgnoreFields(`^` + of.Name() + `\.(` + strings.Join(fields, "|") + `)$`)}
}

// HasCommand reports whether a struct that is a grammar has a command of the name.
func HasCommand(grammar reflect.Type, name string) bool {
	for f := range grammar.Fields() {
		if n, ok := commandName(f); ok && n == name {
			return true
		}
	}
	return false
}

// commandName is the name of the command that a field is, if it is one.
func commandName(f reflect.StructField) (name string, ok bool) {
	if _, ok = f.Tag.Lookup("cmd"); !ok {
		return "", false
	}
	if name = f.Tag.Get("name"); name == "" {
		name = strings.ToLower(f.Name) // kong would put dashes between words
	}
	return name, true
}
