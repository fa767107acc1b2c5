package main

// The command run: the cameras of a line, as a file names them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/coreos/go-systemd/v22/daemon"
	"go.yaml.in/yaml/v3"

	"github.com/polyscan/polyscan/internal/command"
)

type runCmd struct {
	// File of cameras: each has a name, a source, and what flags of camera stream say, by their names.
	File string `arg:"" placeholder:"FILE" predictor:"file"`

	// Print each part as JSON, a line each, instead of a table.
	JSON bool `name:"json" group:"output"`
	// Print no parts, but the summary.
	Quiet bool `short:"q" group:"output"`
	// Address for metrics (/metrics) and health (/healthz).
	HTTP string `name:"http" placeholder:"ADDR" group:"output"`
}

// perProgram are flags of camera stream that all cameras of a file share.
var perProgram = []string{"help", "json", "quiet", "http"}

// maxCameras bounds a file.
const maxCameras = 256

// loadLine reads a file. Errors name file, line and key.
func loadLine(name string) ([]*streamCmd, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usage("%s: %v", name, reason(err))
	}
	all, err := parseLine(name, text, (*streamCmd).checkHost)
	if err != nil && !errors.As(err, new(*inputError)) {
		err = usage("%v", err)
	}
	return all, err
}

// parseLine reads the text of a file; check looks at what its settings mean on this host.
func parseLine(name string, text []byte, check func(*streamCmd) error) (all []*streamCmd, err error) {
	root, err := command.Document(name, text)
	if err != nil {
		return nil, err
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		return usage("%s:%d: %s", name, n.Line, fmt.Sprintf(format, args...))
	}
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, usage("%s:1: want cameras, and maybe defaults", name)
	}
	grammar, err := kong.New(&app{}, kong.Bind(command.VersionText("")), command.PlainNumbers)
	if err != nil {
		return nil, err
	}
	stream := grammar.Model.Children[slices.IndexFunc(grammar.Model.Children,
		func(n *kong.Node) bool { return n.Name == "stream" })]
	flags := slices.DeleteFunc(slices.Clone(stream.Flags), func(f *kong.Flag) bool {
		return slices.Contains(perProgram, f.Name)
	})
	defaults := map[string]command.Setting{}
	var cameras *yaml.Node
	for i := 0; i < len(root.Content); i += 2 {
		switch key, value := root.Content[i], root.Content[i+1]; key.Value {
		case "defaults":
			if defaults, err = command.Settings(name, value, flags); err != nil {
				return nil, err
			}
			if d, ok := defaults["name"]; ok {
				return nil, at(&yaml.Node{Line: d.Line}, "name: each camera has its own")
			}
		case "cameras":
			if cameras = value; value.Kind != yaml.SequenceNode || len(value.Content) == 0 ||
				len(value.Content) > maxCameras {
				return nil, at(key, "cameras: want a list of 1 to %d", maxCameras)
			}
		default:
			return nil, at(key, "%q is not a setting: want cameras and defaults", key.Value)
		}
	}
	if cameras == nil {
		return nil, at(root, "cameras is missing")
	}
	names := map[string]int{}
	for _, n := range cameras.Content {
		if n.Kind != yaml.MappingNode {
			return nil, at(n, "want a mapping of settings to values, with name and source")
		}
		args, lines := []string{"stream"}, map[string]int{}
		own := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Value != "source" {
				own.Content = append(own.Content, key, value)
				continue
			}
			if value.Kind != yaml.ScalarNode || value.Value == "" || value.Value == "-" || len(args) > 1 {
				return nil, at(key, "source: want one camera, folder, pipe, file or rtsp://...")
			}
			args = append(args, "--", value.Value)
			lines["source"] = key.Line
		}
		settings, err := command.Settings(name, own, flags)
		if err != nil {
			return nil, err
		}
		title := settings["name"].Text
		switch first := names[title]; {
		case len(args) == 1:
			return nil, at(n, "source is missing")
		case title == "":
			return nil, at(n, "name is missing: it is before the numbers of the camera's parts")
		case first > 0:
			return nil, usage("%s:%d: name %s is taken, by the camera in line %d", name, settings["name"].Line, title,
				first)
		}
		names[title] = settings["name"].Line
		given := []string{"stream"}
		for _, f := range flags { // in their order
			v, ok := settings[f.Name]
			if !ok {
				v, ok = defaults[f.Name]
			}
			for _, text := range v.Items {
				if text == "" {
					return nil, usage("%s:%d: %s: the value is empty", name, v.Line, f.Name)
				}
				given = append(given, "--"+f.Name+"="+text)
			}
			if ok {
				lines[f.Name] = v.Line
			}
		}
		c, err := parseStream(append(given, args[1:]...))
		if err == nil {
			err = check(c)
		}
		if err != nil {
			text, line := err.Error(), n.Line
			flag, _, _ := strings.Cut(strings.TrimPrefix(text, "--"), " ")
			for key, value := range map[string]string{"source": c.Source, "regions": c.Regions} {
				if value != "" && strings.HasPrefix(text, value+": ") {
					flag = key
				}
			}
			line = cmp.Or(lines[strings.TrimSuffix(flag, ":")], line)
			return nil, usage("%s:%d: camera %s: %s", name, line, title, text)
		}
		all = append(all, c)
	}
	return all, nil
}

// parseStream parses and checks arguments of camera stream.
func parseStream(args []string) (*streamCmd, error) {
	a := &app{}
	k, err := kong.New(a, kong.Bind(command.VersionText("")), command.PlainNumbers)
	if err != nil {
		return &a.Stream, err
	}
	if _, err := k.Parse(args); err != nil {
		return &a.Stream, errors.New(command.Words(err))
	}
	return &a.Stream, a.Stream.check()
}

// checkHost says what is wrong with settings that name something: a source that can't be one or isn't there, flags
// that it doesn't have, regions that can't be read, limits, credentials. Cameras and devices may come later.
func (c *streamCmd) checkHost() error {
	quiet := &env{stderr: io.Discard}
	_, err := os.Stat(c.Source)
	if waits := strings.HasPrefix(c.Source, "/dev/") && errors.Is(err, fs.ErrNotExist); !waits {
		if _, err := newStream(c, quiet, newSeconds()).source(); err != nil {
			return err
		}
	}
	in, err := c.inspection(quiet, layout{})
	if err != nil {
		return err
	}
	if err := c.session(in).CheckLimits(); err != nil {
		return usage("%v", err)
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	return client.Close()
}

// calm is how long a stream has to go on until an attempt to start it again isn't one of a row.
const calm = 10 * time.Second

func (c *runCmd) Run(e *env) error {
	all, err := loadLine(c.File)
	if err != nil {
		return err
	}
	shared := &lineWriter{w: e.stdout}
	both := &env{e.ctx, e.stdin, shared, &lineWriter{w: e.stderr}}
	seconds := newSeconds()
	var streams []*stream
	for _, one := range all {
		one.JSON, one.Quiet = c.JSON, c.Quiet
		s := newStream(one, both, seconds)
		s.tally.prefix, s.tally.tty, s.tally.headed = one.Name+": ", false, true
		streams = append(streams, s)
	}
	if c.HTTP != "" {
		shut, err := serve(c.HTTP, streams...)
		if err != nil {
			return err
		}
		defer shut()
	}
	if !c.JSON && !c.Quiet {
		fmt.Fprintln(shared, tableHead)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // where systemd started it
	var wait sync.WaitGroup
	ended := make([]error, len(streams))
	for i, s := range streams {
		wait.Go(func() {
			ctx, stop := s.bounded(e.ctx)
			defer stop()
			ended[i] = s.again(ctx)
		})
	}
	wait.Wait()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	void, lost := true, error(nil) // what ended streams that didn't end by themselves
	for i, s := range streams {
		if !c.JSON {
			fmt.Fprintf(shared, "\n%s", s.Name)
		}
		err := s.tally.summary(shared)
		ended[i] = cmp.Or(ended[i], s.away())
		void = void && errors.Is(err, errVoid)
		if ended[i] != nil {
			lost = errors.Join(lost, fmt.Errorf("%s: %w", s.Name, ended[i]))
		}
		ended[i] = err
	}
	switch {
	case lost != nil:
		return lost
	case void:
		return errVoid
	case slices.ContainsFunc(ended, func(err error) bool { return err != nil }):
		return errFailed
	}
	return nil
}

// again runs a stream until it ends by itself or the context does, and starts it anew whenever it can't go on. What
// was away then is the stream's to say.
func (s *stream) again(ctx context.Context) error {
	wait, before := firstRetry, ""
	for {
		start := time.Now()
		err := s.run(ctx)
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil
		case ctx.Err() != nil:
			return err
		case err == nil || s.Reconnect == 0:
			return err
		case time.Since(start) > calm:
			wait, before = firstRetry, ""
		}
		s.presence.lost(time.Now(), err)
		if text := err.Error(); text != before { // once, however often it is tried
			s.notify("%s", text)
			before = text
		}
		select {
		case <-time.After(min(wait, s.Reconnect)):
			wait = min(2*wait, s.Reconnect)
		case <-ctx.Done():
			return nil
		}
	}
}

// lineWriter is a writer of whole lines that several goroutines use.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
