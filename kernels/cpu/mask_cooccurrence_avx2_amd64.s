//go:build !purego

// The loop of MaskCooccurrence for AVX2. What it computes is said at its twin in mask_cooccurrence_kernels.go, and how it
// may be called in mask_cooccurrence_amd64.go.

#include "textflag.h"

// COUNT adds 1 to a counter of the cell whose place in the tables, in bytes, is at off(R8).
#define COUNT(off, counter) \
	MOVL off(R8), AX          \
	INCW counter(DI)(AX*1)

// PLACES makes eight words of pairs of levels the places of their cells, and stores them.
#define PLACES(y, off) \
	VPMADDWD Y13, y, y    \
	VMOVDQA y, off(R8)

// func countPairsAVX2(tables *uint16, first, second *byte, n, levels int, shift uint)
//
// Places of 32 pairs are computed side by side and go by way of memory, from where one instruction takes each.
TEXT ·countPairsAVX2(SB), NOSPLIT, $192-48
	MOVQ tables+0(FP), DI
	MOVQ first+8(FP), SI
	MOVQ second+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ levels+32(FP), AX
	MOVQ shift+40(FP), BX
	LEAQ 63(SP), R8
	ANDQ $~63, R8
	VMOVQ BX, X15
	MOVL $0xff, R9
	SHRXL BX, R9, R9
	VMOVD R9, X14
	VPBROADCASTB X14, Y14           // the bits of a level
	SHLL $4, AX
	ORL $0x100000, AX               // of a pair the first times 16 levels, the second times 16
	VMOVD AX, X13
	VPBROADCASTD X13, Y13
	VPXOR Y12, Y12, Y12

step:
	VMOVDQU (SI), Y0
	VMOVDQU (DX), Y1
	VPSRLW X15, Y0, Y0
	VPSRLW X15, Y1, Y1
	VPAND Y14, Y0, Y0
	VPAND Y14, Y1, Y1
	VPUNPCKLBW Y1, Y0, Y2
	VPUNPCKHBW Y1, Y0, Y3
	VPUNPCKLBW Y12, Y2, Y4
	VPUNPCKHBW Y12, Y2, Y5
	VPUNPCKLBW Y12, Y3, Y6
	VPUNPCKHBW Y12, Y3, Y7
	PLACES(Y4, 0)
	PLACES(Y5, 32)
	PLACES(Y6, 64)
	PLACES(Y7, 96)
	COUNT(0, 0)
	COUNT(4, 2)
	COUNT(8, 4)
	COUNT(12, 6)
	COUNT(16, 8)
	COUNT(20, 10)
	COUNT(24, 12)
	COUNT(28, 14)
	COUNT(32, 0)
	COUNT(36, 2)
	COUNT(40, 4)
	COUNT(44, 6)
	COUNT(48, 8)
	COUNT(52, 10)
	COUNT(56, 12)
	COUNT(60, 14)
	COUNT(64, 0)
	COUNT(68, 2)
	COUNT(72, 4)
	COUNT(76, 6)
	COUNT(80, 8)
	COUNT(84, 10)
	COUNT(88, 12)
	COUNT(92, 14)
	COUNT(96, 0)
	COUNT(100, 2)
	COUNT(104, 4)
	COUNT(108, 6)
	COUNT(112, 8)
	COUNT(116, 10)
	COUNT(120, 12)
	COUNT(124, 14)
	ADDQ $32, SI
	ADDQ $32, DX
	SUBQ $32, CX
	JNZ step
	VZEROUPPER
	RET
