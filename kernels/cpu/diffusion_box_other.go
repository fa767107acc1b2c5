//go:build purego || !amd64

package cpu

// Nobody calls these then.
func stepAVX2(_, _ *float32, _ int, _ float32) (most uint32)          { return 0 }
func relaxFinestAVX2(_, _, _, _ *float32, _, _ int)                   {}
func residualFinestAVX2(_, _, _, _, _ *float32, _ int) (most uint32)  { return 0 }
func relaxCoarseAVX2(_, _, _, _, _, _, _ *float32, _, _, _ int)       {}
func residualCoarseAVX2(_, _, _, _, _, _, _, _, _ *float32, _, _ int) {}
