package reductions

// Correlations as text.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// channelPairs is how a correlation of all channels is spelled.
const channelPairs = "channels"

// LimitReason is what is wrong with a limit or a quantity, for those who name it themselves.
func LimitReason(err error) string {
	var wrong *polygon.LimitError
	if errors.As(err, &wrong) {
		return wrong.Reason()
	}
	return err.Error()
}

// ParseTerm reads a correlation as limits spell it, or "channels".
func ParseTerm(text string) (*polyscanv1.CorrelationTerm, error) {
	if strings.EqualFold(strings.TrimSpace(text), channelPairs) {
		return &polyscanv1.CorrelationTerm{Kind: polyscanv1.CorrelationKind_CORRELATION_KIND_CHANNEL}, nil
	}
	q, err := polygon.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %s", text, LimitReason(err))
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

// FormatTerm spells a correlation, as ParseTerm reads it.
func FormatTerm(t *polyscanv1.CorrelationTerm) string {
	if t.GetKind() == polyscanv1.CorrelationKind_CORRELATION_KIND_CHANNEL && t.GetWith() == 0 {
		return channelPairs
	}
	return polygon.Correlation{Kind: polygon.CorrelationKind(t.GetKind()), Radius: int(t.GetRadius()),
		Frame: t.GetFrame(), Offset: polygon.Offset{DX: int(t.GetOffset().GetDx()), DY: int(t.GetOffset().GetDy())},
		With: polygon.Channel(t.GetWith())}.String()
}
