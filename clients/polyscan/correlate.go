package main

// Correlations: how they are spelled, and the frames that they speak of.

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// channelPairs is how a correlation of all channels is spelled.
const channelPairs = "channels"

// limitReason is what is wrong with a limit or a quantity, for those who name it themselves.
func limitReason(err error) string {
	var wrong *polygon.LimitError
	if errors.As(err, &wrong) {
		return wrong.Reason()
	}
	return err.Error()
}

// parseTerm reads a correlation as limits spell it, or "channels".
func parseTerm(text string) (*polyscanv1.CorrelationTerm, error) {
	if strings.EqualFold(strings.TrimSpace(text), channelPairs) {
		return &polyscanv1.CorrelationTerm{Kind: polyscanv1.CorrelationKind_CORRELATION_KIND_CHANNEL}, nil
	}
	q, err := polygon.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %s", text, limitReason(err))
	}
	c, ok := q.Correlation()
	if !ok || q.Channel() != polygon.NoChannel {
		return nil, fmt.Errorf(`%q: want autocorrelation(8,0), radial(32), ncc of "golden" at (0,0), correlation(g) or channels`, text)
	}
	t := &polyscanv1.CorrelationTerm{Kind: polyscanv1.CorrelationKind(c.Kind), Radius: uint32(c.Radius), Frame: c.Frame,
		With: polyscanv1.Channel(c.With)}
	if c.Offset != (polygon.Offset{}) {
		t.Offset = &polyscanv1.PixelOffset{Dx: int32(c.Offset.DX), Dy: int32(c.Offset.DY)}
	}
	return t, nil
}

// formatTerm spells a correlation, as parseTerm reads it.
func formatTerm(t *polyscanv1.CorrelationTerm) string {
	if t.GetKind() == polyscanv1.CorrelationKind_CORRELATION_KIND_CHANNEL && t.GetWith() == 0 {
		return channelPairs
	}
	return polygon.Correlation{Kind: polygon.CorrelationKind(t.GetKind()), Radius: int(t.GetRadius()),
		Frame: t.GetFrame(), Offset: polygon.Offset{DX: int(t.GetOffset().GetDx()), DY: int(t.GetOffset().GetDy())},
		With: polygon.Channel(t.GetWith())}.String()
}

// goldenFlags are frames to compare with.
type goldenFlags struct {
	// A frame that limits and --correlate compare with, of the same size and format; NAME is what they call it (default
	// golden). May be repeated.
	Golden []string `placeholder:"[NAME=]FILE" sep:"none" predictor:"file" group:"frame"`
}

// files are what the frames are read from.
func (o *goldenFlags) files() (out inputs) {
	for _, text := range o.Golden {
		_, file := goldenOf(text)
		out = append(out, file)
	}
	return out
}

// goldenOf reads [NAME=]FILE.
func goldenOf(text string) (name, file string) {
	if name, file, named := strings.Cut(text, "="); named {
		return name, file
	}
	return "golden", text
}

// goldenIdle is how long the server keeps such a frame that nobody uses.
const goldenIdle = 10 * time.Minute

// put brings the frames to the server for a call, whose inspection names them then. release takes them away.
func (o *goldenFlags) put(e *env, conn *connection, as *frameFlags, in *polyscanv1.Inspection) (release func(),
	err error) {
	release = func() {
		for _, name := range in.GetFrames() {
			_ = conn.ReleaseFrame(conn.ctx, name) // it goes by itself, too
		}
	}
	for _, text := range o.Golden {
		name, file := goldenOf(text)
		f, err := as.load(e, file)
		if err != nil {
			release()
			return nil, err
		}
		if _, again := in.GetFrames()[name]; again || name == "" {
			release()
			return nil, usage("--golden %s: each frame needs a name of its own", cli.Printable(text))
		}
		kept, err := conn.PutFrame(conn.ctx, f.message(), goldenIdle)
		if err != nil {
			release()
			return nil, conn.fail(err, f.name, nil)
		}
		if in.Frames == nil {
			in.Frames = map[string]string{}
		}
		in.Frames[name] = kept.GetName()
	}
	return release, nil
}
