//go:build !purego

// Kernels of Correct for AVX2. What they compute is said at their twin correctGo in correct.go, and how they may be
// called in correct_amd64.go.

#include "go_asm.h"
#include "textflag.h"

// BYTES makes 16 words in out of 16 differences in the low half of a vector: d*256*gain/65536 is d*gain/256, of which
// the fraction has fraction-8 bits left. Rounding down twice is rounding down once.
#define BYTES(d, g, out) \
	VPMOVZXBW d, out      \
	VPSLLW $8, out, out   \
	VPMULHUW g, out, out  \
	VPADDW Y14, out, out  \
	VPSRLW X13, out, out

// func correctBytesAVX2(dst, src, dark *uint8, gain *uint16, n, fraction int)
TEXT ·correctBytesAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ dark+16(FP), DX
	MOVQ gain+24(FP), BX
	MOVQ n+32(FP), CX
	MOVQ fraction+40(FP), AX
	SUBQ $8, AX
	VMOVQ AX, X13            // bits of the fraction that are left
	VPCMPEQW Y15, Y15, Y15   // all ones: 255 in each byte
	VPSRLW $15, Y15, Y14     // 1 in each word
	DECQ AX
	VMOVQ AX, X12
	VPSLLW X12, Y14, Y14     // a half
	XORQ R8, R8

bytes:
	PREFETCHT0 1024(SI)(R8*1)
	VMOVDQU (SI)(R8*1), Y0
	VPSUBUSB (DX)(R8*1), Y0, Y1
	VEXTRACTI128 $1, Y1, X2
	VMOVDQU (BX)(R8*2), Y3
	VMOVDQU 32(BX)(R8*2), Y4
	BYTES(X1, Y3, Y5)
	BYTES(X2, Y4, Y6)
	VPACKUSWB Y6, Y5, Y5
	VPERMQ $0xd8, Y5, Y5
	VPCMPEQB Y15, Y0, Y0     // saturated
	VPOR Y0, Y5, Y5
	VMOVDQU Y5, (DI)(R8*1)
	ADDQ $32, R8
	CMPQ R8, CX
	JLT bytes
	VZEROUPPER
	RET

// func correctWordsAVX2(dst, src, dark, gain *uint16, n, fraction, most int)
TEXT ·correctWordsAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ dark+16(FP), DX
	MOVQ gain+24(FP), BX
	MOVQ n+32(FP), CX
	MOVQ fraction+40(FP), AX
	VMOVQ AX, X13
	DECQ AX
	VMOVQ AX, X12
	VPCMPEQD Y14, Y14, Y14
	VPSRLD $31, Y14, Y14
	VPSLLD X12, Y14, Y14     // a half in each dword
	MOVQ most+48(FP), AX
	VMOVQ AX, X15
	VPBROADCASTD X15, Y11    // the largest in each dword
	VPBROADCASTW X15, Y15    // and in each word
	XORQ R8, R8

words:
	PREFETCHT0 1024(SI)(R8*2)
	VMOVDQU (SI)(R8*2), Y0
	VPSUBUSW (DX)(R8*2), Y0, Y1
	VMOVDQU (BX)(R8*2), Y2
	VPMULLW Y2, Y1, Y3
	VPMULHUW Y2, Y1, Y4
	VPUNPCKLWD Y4, Y3, Y5
	VPUNPCKHWD Y4, Y3, Y6
	VPADDD Y14, Y5, Y5
	VPADDD Y14, Y6, Y6
	VPSRLD X13, Y5, Y5
	VPSRLD X13, Y6, Y6
	VPMINUD Y11, Y5, Y5
	VPMINUD Y11, Y6, Y6
	VPACKUSDW Y6, Y5, Y5
	VPMAXUW Y15, Y0, Y7
	VPCMPEQW Y0, Y7, Y7      // saturated, or beyond
	VPBLENDVB Y7, Y0, Y5, Y5
	VMOVDQU Y5, (DI)(R8*2)
	ADDQ $16, R8
	CMPQ R8, CX
	JLT words
	VZEROUPPER
	RET
