//go:build purego || !amd64

package cpu

import "github.com/polyscan/polyscan/kernels/driver"

// Nobody calls these then.
func half8(*[8]float32, *plane, int, int) {}

func blurred8(*[8]float32, *[driver.BlurLevels + 1]plane, int, int, int) {}
