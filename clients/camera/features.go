package main

// The commands list, features and set.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/polyscan/polyscan/clients/camera/internal/genicam"
	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/internal/cli"
)

type listCmd struct {
	// Print JSON instead of a table.
	JSON bool `name:"json"`
}

func (c *listCmd) Run(e *env) error {
	found, err := gvcp.Discover(e.ctx, searchTime)
	if err != nil {
		return err
	}
	if e.ctx.Err() != nil {
		return e.ctx.Err()
	}
	if c.JSON {
		type row struct {
			Address   string `json:"address"`
			Interface string `json:"interface"`
			MAC       string `json:"mac"`
			Vendor    string `json:"vendor"`
			Model     string `json:"model"`
			Version   string `json:"version"`
			Serial    string `json:"serial"`
			Name      string `json:"name"`
		}
		rows := []row{}
		for _, i := range found {
			rows = append(rows, row{i.Addr.Addr().String(), i.Interface, i.MAC.String(), i.Manufacturer, i.Model,
				i.Version, i.Serial, i.UserName})
		}
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(rows); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		fmt.Fprintln(e.stderr, "camera: no camera answers: see camera check")
		return errVoid
	}
	if c.JSON {
		return nil
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ADDRESS\tVENDOR\tMODEL\tSERIAL\tNAME\tINTERFACE")
	for _, i := range found {
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%s\t%s\n", i.Addr.Addr(), i.Manufacturer, i.Model, i.Serial,
			cmp.Or(i.UserName, "-"), i.Interface) // texts of registers are printable
	}
	return w.Flush()
}

// cameraArg names one.
type cameraArg struct {
	// Camera: its address, its serial number, its MAC, or its user's name for it.
	Camera string `arg:"" placeholder:"CAMERA"`
}

type featuresCmd struct {
	cameraArg
	// Only these features; by default all that are there now.
	Names []string `arg:"" optional:"" name:"feature"`
	// Print JSON instead of a table.
	JSON bool `name:"json"`
}

type featureReport struct {
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Kind     string   `json:"kind"`
	Value    string   `json:"value"`
	Settable bool     `json:"settable"`
	Entries  []string `json:"entries,omitempty"`
	Tip      string   `json:"tip,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func (c *featuresCmd) Run(e *env) (err error) {
	info, err := find(e.ctx, c.Camera)
	if err != nil {
		return err
	}
	l, err := open(e.ctx, info, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	features := l.Model.Features()
	if len(c.Names) > 0 {
		known := map[string]genicam.Feature{}
		for _, f := range features {
			known[f.Name] = f
		}
		features = nil
		for _, n := range c.Names {
			f, ok := known[n]
			if !ok {
				return usage("%s: the camera has no feature of that name", n)
			}
			features = append(features, f)
		}
	}
	reports := []featureReport{}
	for _, f := range features {
		r := featureReport{Name: f.Name, Category: f.Category, Kind: f.Kind, Tip: f.Tip,
			Entries: l.Model.Entries(f.Name)}
		v, err := l.Get(e.ctx, f.Name)
		switch {
		case errors.Is(err, gvcp.ErrSilent), e.ctx.Err() != nil:
			return err
		case errors.Is(err, genicam.ErrWriteOnly): // a command
		case err != nil:
			r.Error = err.Error()
		}
		r.Value, r.Settable = v, l.Settable(e.ctx, f.Name)
		reports = append(reports, r)
	}
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(reports)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FEATURE\tVALUE\tSET\tWHAT")
	for _, r := range reports {
		set, value, what := "-", r.Value, r.Tip
		switch {
		case r.Error != "":
			value, what = "-", r.Error
		case r.Kind == "Command":
			value, set = "-", "command"
		case r.Settable && len(r.Entries) > 0:
			set = strings.Join(r.Entries, " ")
		case r.Settable:
			set = strings.ToLower(r.Kind)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Printable(r.Name), cli.Printable(value), cli.Printable(set),
			cli.OneLine(what))
	}
	return w.Flush()
}

type setCmd struct {
	cameraArg
	// What to set, in this order: FEATURE=VALUE, or the name of a command to run it.
	Settings []string `arg:"" name:"setting" placeholder:"FEATURE=VALUE"`
}

func (c *setCmd) Run(e *env) (err error) {
	info, err := find(e.ctx, c.Camera)
	if err != nil {
		return err
	}
	l, err := open(e.ctx, info, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, s := range c.Settings {
		if err := l.apply(e, s); err != nil {
			return err
		}
		name, _, isSet := strings.Cut(s, "=")
		if !isSet {
			continue
		}
		if v, err := l.Get(e.ctx, name); err == nil { // the camera may have rounded it
			fmt.Fprintf(e.stdout, "%s = %s\n", cli.Printable(name), cli.Printable(v))
		}
	}
	return nil
}

// apply sets a feature, or runs a command.
func (l *link) apply(e *env, setting string) error {
	name, value, isSet := strings.Cut(setting, "=")
	var err error
	if isSet {
		err = l.Set(e.ctx, name, value)
	} else {
		err = l.Execute(e.ctx, name)
	}
	if err != nil && !errors.Is(err, gvcp.ErrSilent) && e.ctx.Err() == nil {
		return usage("%v", err) // it would be wrong the next time, too
	}
	return err
}
