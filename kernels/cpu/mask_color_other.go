//go:build purego || !amd64

package cpu

func lab(l, a, bb, r, g, b []byte) { labGo(l, a, bb, r, g, b) }

func bins16(to, from *chunk, n int, shift uint8) { bins16Go(to, from, n, shift) }
