//go:build purego || !amd64

package cpu

func rowFlows(dst, up, x, down []float32, open []uint8) {
	rowFlowsGo(dst, up, x, down, open, 0, len(open))
}

func (l *graphLevel) residuals(from, to int) { l.residualsGo(from, to) }
