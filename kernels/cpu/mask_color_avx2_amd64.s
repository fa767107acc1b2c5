//go:build !purego

// Kernels of colours for AVX2. What they compute is said at their twins in mask_color.go, and how they may be called in
// mask_color_amd64.go.

#include "textflag.h"

// SPREAD sets the uint32 of y, whose low half is x, to a constant.
#define SPREAD(c, x, y) \
	MOVL $c, AX          \
	VMOVD AX, x          \
	VPBROADCASTD x, y

// PIXEL leaves the sums of pixel k of a step of 32 in the work, and the entries of the table of roots for them: sums from
// 0 on, entries for X from 256 on, for Y from 384 and for Z from 512.
#define PIXEL(k) \
	MOVBLZX k(SI), AX                  \
	MOVBLZX k(DX), BX                  \
	MOVBLZX k(R8), CX                  \
	MOVQ (R11)(AX*8), R10              \
	ADDQ 2048(R11)(BX*8), R10          \
	ADDQ 4096(R11)(CX*8), R10          \
	MOVQ R10, (8*k)(R9)                \
	BEXTRL R13, R10, AX                \
	BEXTRQ R14, R10, BX                \
	SHRQ $51, R10                      \
	MOVL (R12)(AX*4), AX               \
	MOVL (R12)(BX*4), BX               \
	MOVL (R12)(R10*4), R10             \
	MOVL AX, (4*k+256)(R9)             \
	MOVL BX, (4*k+384)(R9)             \
	MOVL R10, (4*k+512)(R9)

// ROOT makes entries e at off of the work and the last nine bits f of sums roots: the high 17 bits and the rounded product
// of f and the low 15. s is spoiled.
#define ROOT(off, f, s, e) \
	VMOVDQU off(R9)(CX*4), e   \
	VPAND Y15, e, s            \
	VPMADDWD s, f, f           \
	VPSUBD s, e, e             \
	VPADDD f, e, e             \
	VPADDD Y13, e, e           \
	VPSRLD $15, e, e

// STORE stores eight samples as words, spoiling X0.
#define STORE(y, x, to) \
	VEXTRACTI128 $1, y, X0     \
	VPACKUSDW X0, x, x         \
	VMOVDQU x, (to)(CX*2)

// func labAVX2(l, a, bb, red, green, blue *byte, n int)
//
// A step is 32 pixels. Their tables are looked up by themselves: on Zen 5 a load each is three times as fast as a gather.
// All else is done eight pixels at a time. To divide by 125 and by 5, half a unit is added, and the quotient in floats is
// cut off: it is off by less than a quarter of the half.
TEXT ·labAVX2(SB), NOSPLIT, $704-56
	MOVQ l+0(FP), DI
	MOVQ red+24(FP), SI
	MOVQ green+32(FP), DX
	MOVQ blue+40(FP), R8
	LEAQ 63(SP), R9
	ANDQ $~63, R9
	LEAQ ·colorParts(SB), R11
	LEAQ ·colorRoots(SB), R12
	SPREAD(0x7fff, X15, Y15)
	SPREAD(511, X14, Y14)
	SPREAD(16384, X13, Y13)
	SPREAD(0x3e6d9168, X12, Y12)    // 29/125
	SPREAD(0x3f000000, X11, Y11)    // 62.5/125
	SPREAD(4096, X10, Y10)
	SPREAD(0x3ecccccd, X9, Y9)      // 2/5
	SPREAD(0x47000080, X8, Y8)      // 163842.5/5
	SPREAD(32768, X7, Y7)
	MOVL $(12<<8|9), R13    // 12 bits from bit 9 on
	MOVL $(12<<8|30), R14

step:
	PIXEL(0)
	PIXEL(1)
	PIXEL(2)
	PIXEL(3)
	PIXEL(4)
	PIXEL(5)
	PIXEL(6)
	PIXEL(7)
	PIXEL(8)
	PIXEL(9)
	PIXEL(10)
	PIXEL(11)
	PIXEL(12)
	PIXEL(13)
	PIXEL(14)
	PIXEL(15)
	PIXEL(16)
	PIXEL(17)
	PIXEL(18)
	PIXEL(19)
	PIXEL(20)
	PIXEL(21)
	PIXEL(22)
	PIXEL(23)
	PIXEL(24)
	PIXEL(25)
	PIXEL(26)
	PIXEL(27)
	PIXEL(28)
	PIXEL(29)
	PIXEL(30)
	PIXEL(31)
	XORL CX, CX                     // pixel of the step
	MOVQ a+8(FP), R10
	MOVQ bb+16(FP), BX

eight:
	VMOVDQU (R9)(CX*8), Y0
	VMOVDQU 32(R9)(CX*8), Y2
	VSHUFPS $0xdd, Y2, Y0, Y1
	VSHUFPS $0x88, Y2, Y0, Y0
	VPERMQ $0xd8, Y1, Y1            // high words of the sums
	VPERMQ $0xd8, Y0, Y0            // low words
	VPAND Y14, Y0, Y2
	ROOT(256, Y2, Y3, Y4)
	VPSRLD $21, Y0, Y2
	VPAND Y14, Y2, Y2
	ROOT(384, Y2, Y3, Y5)
	VPSRLD $10, Y1, Y2
	VPAND Y14, Y2, Y2
	ROOT(512, Y2, Y3, Y6)
	VPSUBD Y5, Y4, Y4
	VPADDD Y7, Y4, Y4
	VPSUBD Y6, Y5, Y6
	VCVTDQ2PS Y6, Y6
	VFMADD213PS Y8, Y9, Y6
	VCVTTPS2DQ Y6, Y6
	VCVTDQ2PS Y5, Y5
	VFMADD213PS Y11, Y12, Y5
	VCVTTPS2DQ Y5, Y5
	VPSUBD Y10, Y5, Y5
	STORE(Y5, X5, DI)
	STORE(Y4, X4, R10)
	STORE(Y6, X6, BX)
	ADDQ $8, CX
	CMPQ CX, $32
	JLT eight
	ADDQ $64, DI
	ADDQ $64, a+8(FP)
	ADDQ $64, bb+16(FP)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, R8
	SUBQ $32, n+48(FP)
	JGT step
	VZEROUPPER
	RET

// func bins16AVX2(to, from *byte, n int, half, shift uint64)
TEXT ·bins16AVX2(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ half+24(FP), AX
	VMOVD AX, X0
	VPBROADCASTW X0, Y0
	VMOVQ shift+32(FP), X1

bins:
	VPADDW (SI), Y0, Y2
	VPADDW 32(SI), Y0, Y3
	VPSRLW X1, Y2, Y2
	VPSRLW X1, Y3, Y3
	VPACKUSWB Y3, Y2, Y2
	VPERMQ $0xd8, Y2, Y2
	VMOVDQU Y2, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JGT bins
	VZEROUPPER
	RET
