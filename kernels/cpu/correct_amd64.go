//go:build !purego

package cpu

// correctStep is how many samples the kernels take at a time.
const correctStep = 32

// n is a multiple of correctStep, and fraction 9 to 15.
//
//go:noescape
func correctBytesAVX2(dst, src, dark *uint8, gain *uint16, n, fraction int)

//go:noescape
func correctWordsAVX2(dst, src, dark, gain *uint16, n, fraction, most int)

func correctBytes(dst, src, dark []uint8, gain []uint16, fraction, most uint) {
	n := 0
	if simd >= levelAVX2 && len(dst) >= correctStep {
		n = len(dst) &^ (correctStep - 1)
		correctBytesAVX2(&dst[0], &src[0], &dark[0], &gain[0], n, int(fraction))
	}
	correctGo(dst[n:], src[n:], dark[n:], gain[n:], fraction, most)
}

func correctWords(dst, src, dark, gain []uint16, fraction, most uint) {
	n := 0
	if simd >= levelAVX2 && len(dst) >= correctStep {
		n = len(dst) &^ (correctStep - 1)
		correctWordsAVX2(&dst[0], &src[0], &dark[0], &gain[0], n, int(fraction), int(most))
	}
	correctGo(dst[n:], src[n:], dark[n:], gain[n:], fraction, most)
}
