//go:build purego || !amd64

package cpu

func rowFlows(dst, up, x, down []float32, open []uint8) {
	rowFlowsGo(dst, up, x, down, open, 0, len(open))
}

func (l *graphLevel) residuals(from, to int) { l.residualsGo(from, to) }

func sweepRow(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, weight float32, walls bool) {
	sweepRowGo(dst, up, x, down, inv, open, n, weight, walls)
}

func sweepsInPairs() bool { return false }

// Nobody calls it then.
func sweepPairs(*sweepRows, int, int, []float32, int) {}

func apartBySIMD(sums, most *[apartLanes]float32, a, b []float32) int { return 0 }

func fetch([]float32) {}
