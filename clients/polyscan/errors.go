package main

// Errors on their way out: one line that says what and where, and the exit code.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/explain"
	"github.com/polyscan/polyscan/internal/command"
)

// Exit codes.
const (
	exitOK       = 0
	exitReject   = 1   // a verdict FAIL, with --fail-on-reject; fewer than --count, of watch; serve: start it again
	exitUsage    = 2   // wrong arguments or bad input
	exitServer   = 3   // the server, or the way to it
	exitCanceled = 130 // interrupted, as shells report it
)

// errRejected ends a command whose frames didn't all pass. It prints nothing: the verdict has been printed.
var errRejected = errors.New("rejected")

// errSaid ends a command that was used wrongly, and that has said so.
var errSaid error = &inputError{"wrong arguments"}

// inputError is an error of the arguments or of a file.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

// usage is an error of the arguments.
func usage(format string, args ...any) error {
	return &inputError{fmt.Sprintf(format, args...)}
}

// bad is an error of an input: a file, and what is wrong with it.
func bad(name, format string, args ...any) error {
	return &inputError{name + ": " + fmt.Sprintf(format, args...)}
}

// serverError is an error of the server, with the words of the command line for what it is about.
type serverError struct {
	to      explain.Connection // without an address for the server inside the process
	timeout time.Duration      // 0: none
	err     *clients.Error
	blobs   string // the flag that says what blobs are
	frame   string // name of the frame, empty if there is none
	regions *regions
	meant   string // of a recipe that isn't there: which may have been meant
}

func (e *serverError) Unwrap() error { return e.err }

// Error names the file that a refused field came from in place of the field's path in the request.
func (e *serverError) Error() string {
	v := e.err.Violations
	e, message := e.which()
	if len(v) == 0 {
		switch e.err.Code {
		case codes.InvalidArgument, codes.NotFound, codes.Aborted, codes.OutOfRange, codes.FailedPrecondition,
			codes.AlreadyExists:
			return strings.Replace(e.err.Reason(), "expected_version =", "--expect", 1) + e.meant
		case codes.DeadlineExceeded:
			if e.timeout > 0 {
				return fmt.Sprintf("no answer within %v (--timeout)", e.timeout)
			}
		}
		if text := e.to.Explain(e.err); e.to.Addr != "" && text != "" {
			return text
		}
		return e.err.Error()
	}
	if text := e.golden(v[0]); text != "" {
		return text
	}
	place := e.place(v[0].Field)
	rest := cli.Because(e.err, strings.Replace(message, "reductions.blobs does not say", e.blobs+" does not say", 1))
	switch {
	case strings.HasPrefix(place, "--") || place == "NAME" || place == "QUANTITY":
		rest = formatWords.Replace(strings.TrimPrefix(rest, " =")) // as other errors have it
		if strings.HasPrefix(v[0].Field, "frame.") && e.frame != "" {
			place = e.frame + ": " + place
		}
	case e.regions != nil && strings.HasPrefix(place, e.regions.name+": "):
		rest = cli.FileText(strings.TrimPrefix(place, e.regions.name+": "), rest)
	case place == e.frame || e.regions != nil && place == e.regions.name:
		rest = strings.TrimPrefix(rest, " =")
		if rest[0] == ' ' {
			rest = ":" + rest
		}
		if strings.HasSuffix(v[0].Field, "frame.layout") {
			rest = formatWords.Replace(rest)
		}
	}
	if rest[0] == ':' {
		place = strings.TrimSuffix(place, ":")
	}
	return place + rest
}

// which is the error with the name of the frame of several that its message speaks of behind all else, and the message
// without it.
func (e *serverError) which() (*serverError, string) {
	m := frameOf.FindStringSubmatch(e.err.Message)
	if m == nil || e.frame != "" || len(e.err.Violations) == 0 || !strings.HasPrefix(e.err.Violations[0].Field, "frame") {
		return e, e.err.Message
	}
	one := *e
	var err error
	if one.frame, err = strconv.Unquote(m[2]); err != nil {
		return e, e.err.Message
	}
	return &one, m[1]
}

var frameOf = regexp.MustCompile(`^(.*) \(frame \d+ of the call, ("(?:[^"\\]|\\.)*")\)$`)

// golden says what is wrong with a frame to compare with: one that is missing, or that nothing speaks of.
func (e *serverError) golden(v clients.FieldViolation) string {
	_, name, one := strings.Cut(v.Field, "frames[")
	if !one && !strings.HasSuffix(v.Field, ".frames") {
		return ""
	}
	name = strings.TrimSuffix(name, "]")
	value, why, _ := strings.Cut(strings.TrimPrefix(e.err.Message, v.Field+" = "), `": `)
	value += `"`
	switch {
	case !one: // of which the value is the name
		name, why = value, formatWords.Replace(why)
	case value == name && strings.HasPrefix(why, "is no resident frame"): // it is what the limit says
		return "--golden: a limit or a correlation compares with " + name + ", and there is no frame of that name"
	}
	if e.regions == nil && strings.HasPrefix(why, "is no resident frame") { // those of --golden were put just now
		return "the recipe compares with the frame " + name + ": " + value + " " + why + "; bring it with --golden"
	}
	if e.regions != nil {
		if key, err := strconv.Unquote(name); err == nil && e.regions.file.Frames[key] != "" {
			return e.regions.name + ": frames: " + name + ": " + why
		}
	}
	return "--golden " + name + ": " + why
}

// formatWords turns pixel formats as the protocol spells them into those of the command line.
var formatWords = func() *strings.Replacer {
	var pairs []string
	for _, f := range formats {
		pairs = append(pairs, strings.ToUpper(f.name), f.name)
	}
	return strings.NewReplacer(pairs...)
}()

// flagOf is the flags that set fields.
var flagOf = map[string]string{
	"frame.layout.pixel_format": "--format", "frame.layout.significant_bits": "--bits",
	"reductions.histogram.bins": "--bins", "width": "--size", "height": "--size", "name": "NAME",
	"filter.from": "--from", "filter.to": "--to", "step": "--step", "quantity": "QUANTITY", "description": "--description",
	"frame_id":   "--id",
	"lower_spec": "--lower", "upper_spec": "--upper", "beside": "--beside",
	"options.vertices": "--points", "options.spacing": "--spacing", "options.border": "--border",
	"options.cell":  "--cell",
	"options.route": "--route", "route": "--route", "mask": "--mask", "options.threshold": "--threshold",
	"options.length": "--length", "options.flatness": "--flatness", "options.distance": "--distance",
	"options.levels": "--levels", "options.psnr": "--psnr",
}

// place translates the path of a field.
func (e *serverError) place(field string) string {
	switch field {
	case "inspection.name", "open.name":
		return "--name"
	case "frame.part_id":
		return "--part"
	case "frame.frame_id":
		return "--id"
	}
	for _, prefix := range []string{"inspection.", "open.", "draft.", "recipe.", "request."} {
		field = strings.TrimPrefix(field, prefix)
	}
	key, inFile := cli.FileKey(field)
	if e.regions != nil && inFile && (e.regions.asked || key == "flat_field") {
		return e.regions.name + ": " + key
	}
	if flag, ok := flagOf[field]; ok {
		return flag
	}
	for prefix, flag := range map[string]string{"reductions.cooccurrence.levels": "--texture-levels",
		"reductions.cooccurrence.offsets": "--texture", "reductions.color_matrix": "--color-matrix",
		"reductions.colors": "--color", "reductions.derivatives": "--derivative", "quantities": "--quantity",
		"flat_field": "--flat", "names": "--name"} {
		if strings.HasPrefix(field, prefix) {
			return flag
		}
	}
	if part, ok := strings.CutPrefix(key, "reductions: blobs"); ok {
		return e.blobs + part
	}
	if rest, ok := strings.CutPrefix(field, "frame."); ok && e.frame != "" {
		// The bytes are the file; the layout is what the user said about it, or all of it what the file holds.
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "data"), ".")
		if rest == "" || rest == "layout" {
			return e.frame
		}
		return e.frame + ": " + rest
	}
	if rest, ok := strings.CutPrefix(field, "drawing."); ok && e.frame != "" {
		if curve, ok := strings.CutSuffix(rest, ".xy"); ok {
			rest = curve + ".points" // as files have it
		}
		return e.frame + ": " + rest
	}
	if (field == "frame" || field == "drawing") && e.frame != "" {
		return e.frame
	}
	if strings.HasPrefix(field, "points[") && e.frame != "" {
		return e.frame + ": " + field
	}
	if (field == "region_set" || field == "regions") && e.regions != nil {
		return e.regions.name
	}
	if rest, ok := strings.CutPrefix(field, "region_set."); ok && e.regions != nil {
		return e.regions.place(rest)
	}
	return field
}

// index reads the 3 of "regions[3]".
func index(s string) (int, bool) {
	_, s, ok := strings.Cut(s, "[")
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(strings.TrimSuffix(s, "]"))
	return i, err == nil && i >= 0
}

// exitCode classifies an error, nil included.
func exitCode(err error) int {
	var in *inputError
	var lost *command.OutputError
	var few *fewVerdicts
	var served *serveError
	switch e := clients.AsError(err); {
	case err == nil:
		return exitOK
	case errors.Is(err, errRejected), errors.As(err, &few), errors.As(err, &served):
		return exitReject
	case errors.Is(err, context.Canceled):
		return exitCanceled
	case errors.As(err, &in), errors.As(err, &lost):
		return exitUsage
	case e != nil:
		switch e.Code {
		case codes.InvalidArgument, codes.NotFound, codes.Aborted, codes.OutOfRange, codes.FailedPrecondition,
			codes.AlreadyExists:
			return exitUsage
		}
	}
	return exitServer
}
