//go:build !purego

package cpu

// n is a multiple of 32 and above 0. Levels are below levels, and tables as long as countPairsGo says.
//
//go:noescape
func countPairsAVX2(tables *uint16, first, second *byte, n, levels int, shift uint)

func countPairs(tables []uint16, first, second []byte, levels int, shift uint) {
	if whole := len(first) &^ 31; simd >= levelAVX2 && whole > 0 {
		_, _ = second[whole-1], tables[pairTables*levels*levels-1]
		countPairsAVX2(&tables[0], &first[0], &second[0], whole, levels, shift&7)
		first, second = first[whole:], second[whole:]
	}
	countPairsGo(tables, first, second, levels, shift)
}
