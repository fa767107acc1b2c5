//go:build !purego

package cpu

import "github.com/klauspost/cpuid/v2"

var bestLevel = func() level {
	c := &cpuid.CPU
	if !c.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.BMI2) {
		return levelGo
	}
	if !c.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512VBMI, cpuid.AVX512VNNI,
		cpuid.AVX512VPOPCNTDQ, cpuid.GFNI) {
		return levelAVX2
	}
	return levelAVX512
}()
