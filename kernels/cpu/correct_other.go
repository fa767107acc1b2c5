//go:build purego || !amd64

package cpu

func correctBytes(dst, src, dark []uint8, gain []uint16, fraction, most uint) {
	correctGo(dst, src, dark, gain, fraction, most)
}

func correctWords(dst, src, dark, gain []uint16, fraction, most uint) {
	correctGo(dst, src, dark, gain, fraction, most)
}
