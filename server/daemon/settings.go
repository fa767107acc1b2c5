// Where settings come from: the command line, the environment, a file, or the default, the first that has one.

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server"
)

// Options are what kong needs for [Flags]: those of the subcommand of that name, or of the program itself where name
// is "". A setting is each of its flags that isn't tagged `env:"-"`. It has a variable in the environment,
// POLYSCAN_MAX_MESSAGE for --max-message, and a key in the file that --config names, max-message. sources hold the
// structs of other commands whose comments are help; see [command.Comments].
func Options(name string, sources ...fs.FS) []kong.Option {
	return []kong.Option{
		command.Comments(append(sources, source, server.ConfigSource)...),
		command.PlainNumbers,
		kong.NamedMapper("size", kong.MapperFunc(sizeMapper)),
		kong.NamedMapper("off", offMapper{}),
		kong.Bind(&file{}), // which --config fills
		kong.PostBuild(func(k *kong.Kong) error {
			node := k.Model.Node
			if name != "" {
				i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
				switch {
				case i < 0 && command.HasCommand(node.Target.Type(), name):
					return nil // left out, since arguments ask for another
				case i < 0:
					return fmt.Errorf("daemon: no command %q", name)
				}
				node = node.Children[i]
			}
			for _, f := range node.Flags {
				switch {
				case f.Tag.Type == "size":
					f.PlaceHolder = "SIZE"
				case f.Target.Type() == reflect.TypeFor[time.Duration]():
					f.PlaceHolder = "TIME"
				}
				switch {
				case f.Name == "help":
				case slices.Equal(f.Envs, []string{"-"}):
					setEnv(f)
				default:
					setEnv(f, envName(f.Name))
				}
			}
			return nil
		}),
	}
}

func envName(flag string) string {
	return command.EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func setEnv(f *kong.Flag, names ...string) { f.Envs, f.Tag.Envs = names, names }

// settings are the flags that a file may set.
func settings(flags []*kong.Flag) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool {
		return len(f.Envs) == 0 || f.Target.Type() == reflect.TypeFor[configPath]()
	})
}

// flagsBeside are the flags of the command that f belongs to, or nil where another command runs.
func flagsBeside(ctx *kong.Context, f *kong.Flag) []*kong.Flag {
	for _, p := range ctx.Path {
		if slices.Contains(p.Flags, f) {
			return p.Flags
		}
	}
	return nil
}

// configPath is the flag that names a file of settings.
type configPath string

// BeforeResolve reads the file. kong calls it once the flag and the environment have been looked at.
func (configPath) BeforeResolve(ctx *kong.Context, trace *kong.Path, f *file) error {
	name := string(ctx.FlagValue(trace.Flag).(configPath))
	flags := flagsBeside(ctx, trace.Flag)
	if name == "" || flags == nil {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := f.parse(name, text, settings(flags)); err != nil {
		return err
	}
	ctx.AddResolver(f)
	return nil
}

// file holds the settings of a file, by name. It implements kong.Resolver.
type file struct {
	name   string
	values map[string]command.Setting
}

// parse reads one YAML mapping of settings. Its errors name file, line and key.
func (f *file) parse(name string, text []byte, flags []*kong.Flag) error {
	f.name = name
	root, err := command.Document(name, text)
	if err != nil || root == nil {
		return err
	}
	f.values, err = command.Settings(name, root, flags)
	return err
}

// Validate implements kong.Resolver. The file was checked when it was read.
func (f *file) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if envOf(flag) != "" {
		return nil, nil // kong would have the file win
	}
	if v, ok := f.values[flag.Name]; ok {
		return v.Text, nil
	}
	return nil, nil
}

// envOf is the variable that sets a flag, or "".
func envOf(f *kong.Flag) string {
	for _, name := range f.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return name
		}
	}
	return ""
}

// empty refuses a setting that is given as an empty text: that is a variable of a script that isn't set, and taken as
// the setting of a file or the default it would switch off tokens that the file asks for. Variables of the environment
// are refused before. A file may say so, since --print-config does: it beats nothing but defaults.
func empty(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if p.Flag != nil && !p.Resolved && command.Empty(ctx, p.Flag) {
			return fmt.Errorf("--%s: the value is empty", p.Flag.Name)
		}
	}
	return nil
}

// printConfig is the flag that prints the settings instead of running.
type printConfig bool

// AfterApply prints them, as a file that --config takes, with the origin of each as a comment.
func (printConfig) AfterApply(k *kong.Kong, ctx *kong.Context, trace *kong.Path, f *file) error {
	doc := yaml.Node{Kind: yaml.MappingNode}
	for _, s := range settings(flagsBeside(ctx, trace.Flag)) {
		var value yaml.Node
		if err := value.Encode(shown(s)); err != nil {
			return fmt.Errorf("--print-config: %s: %w", s.Name, err)
		}
		value.Style |= yaml.FlowStyle
		value.LineComment = f.origin(ctx, s)
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: s.Name}, &value)
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
		return fmt.Errorf("--print-config: %w", err)
	}
	if _, err := k.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	k.Exit(0)
	return nil
}

// origin says where the value of a setting comes from.
func (f *file) origin(ctx *kong.Context, s *kong.Flag) string {
	for _, p := range ctx.Path {
		if p.Flag == s && !p.Resolved {
			return "flag --" + s.Name
		}
	}
	if env := envOf(s); env != "" {
		return "environment " + env
	}
	if v, ok := f.values[s.Name]; ok {
		return fmt.Sprintf("file %s:%d", f.name, v.Line)
	}
	return "default"
}

// WantsJSON looks for the form of logs where the settings as a whole could not be read.
func WantsJSON(args []string) bool {
	given := func(names ...string) string {
		for i, a := range args {
			for _, name := range names {
				if v, ok := strings.CutPrefix(a, name+"="); ok {
					return v
				} else if a == name && i+1 < len(args) {
					return args[i+1]
				}
			}
		}
		return os.Getenv(envName(strings.TrimLeft(names[0], "-")))
	}
	if format := given("--log-format"); format != "" {
		return format == "json"
	}
	var inFile struct {
		LogFormat string `yaml:"log-format"`
	}
	text, err := os.ReadFile(given("--config", "-c"))
	return err == nil && yaml.Unmarshal(text, &inFile) == nil && inFile.LogFormat == "json"
}

// sentence is an error without the names of packages and of calls of the system.
func sentence(err error) string {
	var bound interface{ AsFlag() string }
	if errors.As(err, &bound) {
		return bound.AsFlag()
	}
	text := command.Words(err)
	for _, prefix := range []string{"server: ", "kernels: ", "drivers: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Error(), fmt.Sprintf("%s: %v", file.Path, file.Err), 1)
	}
	return text
}

// Report writes an error that ended a command: a line of text with a hint behind it, or of JSON.
func Report(w io.Writer, name string, json bool, err error, hint string) {
	if json {
		newLogger(w, true, slog.LevelInfo).Error(sentence(err), "command", name)
		return
	}
	fmt.Fprintf(w, "%s: %s\n%s", name, sentence(err), hint)
}
