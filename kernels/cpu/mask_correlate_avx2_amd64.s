//go:build !purego

// Kernels of MaskCorrelate for AVX2. What they compute is said at their twins in mask_correlate_kernels.go, and how they
// may be called in mask_correlate_amd64.go.

#include "go_asm.h"
#include "textflag.h"

// TOTAL sums the four uint64 of y into the register r; x is the low half of y and t a vector to spoil.
#define TOTAL(y, x, t, r) \
	VEXTRACTI128 $1, y, t \
	VPADDQ t, x, x        \
	VPSRLDQ $8, x, t      \
	VPADDQ t, x, x        \
	VMOVQ x, r

// WIDE adds up neighbouring uint32 of y into uint64; t is spoiled, zero is 0.
#define WIDE(y, t, zero) \
	VPSRLQ $32, y, t           \
	VPBLENDD $0xaa, zero, y, y \
	VPADDQ t, y, y

// func pairs8AVX2(first, second *byte, n int) (a, b, aa, bb, ab uint64)
TEXT ·pairs8AVX2(SB), NOSPLIT, $0-64
	MOVQ first+0(FP), SI
	MOVQ second+8(FP), DI
	MOVQ n+16(FP), CX
	VPXOR Y15, Y15, Y15 // 0
	VPXOR Y0, Y0, Y0    // a, uint64
	VPXOR Y1, Y1, Y1    // b, uint64
	VPXOR Y2, Y2, Y2    // aa, uint32
	VPXOR Y3, Y3, Y3    // bb, uint32
	VPXOR Y4, Y4, Y4    // ab, uint32
	JMP check

step:
	VMOVDQU (SI), Y5
	VMOVDQU (DI), Y6
	VPSADBW Y15, Y5, Y7
	VPSADBW Y15, Y6, Y8
	VPADDQ Y7, Y0, Y0
	VPADDQ Y8, Y1, Y1
	VPUNPCKLBW Y15, Y5, Y7
	VPUNPCKHBW Y15, Y5, Y8
	VPUNPCKLBW Y15, Y6, Y9
	VPUNPCKHBW Y15, Y6, Y10
	VPMADDWD Y7, Y9, Y11
	VPMADDWD Y8, Y10, Y12
	VPMADDWD Y7, Y7, Y7
	VPMADDWD Y8, Y8, Y8
	VPMADDWD Y9, Y9, Y9
	VPMADDWD Y10, Y10, Y10
	VPADDD Y11, Y12, Y12
	VPADDD Y7, Y8, Y8
	VPADDD Y9, Y10, Y10
	VPADDD Y12, Y4, Y4
	VPADDD Y8, Y2, Y2
	VPADDD Y10, Y3, Y3
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX

check:
	CMPQ CX, $32
	JGE step
	WIDE(Y2, Y5, Y15)
	WIDE(Y3, Y5, Y15)
	WIDE(Y4, Y5, Y15)
	TOTAL(Y0, X0, X5, AX)
	MOVQ AX, a+24(FP)
	TOTAL(Y1, X1, X5, AX)
	MOVQ AX, b+32(FP)
	TOTAL(Y2, X2, X5, AX)
	MOVQ AX, aa+40(FP)
	TOTAL(Y3, X3, X5, AX)
	MOVQ AX, bb+48(FP)
	TOTAL(Y4, X4, X5, AX)
	MOVQ AX, ab+56(FP)
	VZEROUPPER
	RET
