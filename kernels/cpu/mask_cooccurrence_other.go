//go:build purego || !amd64

package cpu

func countPairs(tables []uint16, first, second []byte, levels int, shift uint) {
	countPairsGo(tables, first, second, levels, shift)
}
