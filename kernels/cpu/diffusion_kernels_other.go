//go:build purego || !amd64

package cpu

func rowFlows(dst, up, x, down []float32, open []uint8) {
	rowFlowsGo(dst, up, x, down, open, 0, len(open))
}

func (l *graphLevel) residuals(from, to int) { l.residualsGo(from, to) }

func sweepRow(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, walls bool) {
	sweepRowGo(dst, up, x, down, inv, open, n, walls)
}

func sweepsInWaves() bool { return false }

// Nobody calls these then.
func sweepWave(*sweepRows, *[ringRow]float32, int, int, int, int) {}
func equationMask(*[ringRow / 16]uint16, *[ringRow]float32)       {}

func apartBySIMD(sums, most *[apartLanes]float32, a, b []float32) int { return 0 }

func fetch([]float32) {}
