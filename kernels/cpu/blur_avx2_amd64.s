//go:build !purego

// Kernels of blur for AVX2, for eight pixels in a row. What they compute is said at their twins in blur.go, and how
// they may be called in blur_amd64.go.

#include "textflag.h"

// MEAN5 sets a to what mean5 makes of a, b, c, d and e; Y13 is 4, Y14 is 6 and Y15 is 1/16.
#define MEAN5(a, b, c, d, e) \
	VADDPS e, a, a       \
	VADDPS d, b, b       \
	VMULPS Y13, b, b     \
	VADDPS b, a, a       \
	VMULPS Y14, c, c     \
	VADDPS c, a, a       \
	VMULPS Y15, a, a

#define MEAN5S               \
	MOVL $0x40800000, AX     \
	VMOVD AX, X13            \
	VPBROADCASTD X13, Y13    \
	MOVL $0x40c00000, AX     \
	VMOVD AX, X14            \
	VPBROADCASTD X14, Y14    \
	MOVL $0x3d800000, AX     \
	VMOVD AX, X15            \
	VPBROADCASTD X15, Y15

// ROW5 sets a to mean5 of a row of pixels, and goes to the next row.
#define ROW5(a) \
	VMOVUPS (SI), a          \
	VMOVUPS 4(SI), Y5        \
	VMOVUPS 8(SI), Y6        \
	VMOVUPS 12(SI), Y7       \
	VMOVUPS 16(SI), Y8       \
	MEAN5(a, Y5, Y6, Y7, Y8) \
	ADDQ R8, SI

// func mean5AVX2(dst, v *float32, stride int)
TEXT ·mean5AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ stride+16(FP), R8
	SHLQ $2, R8
	MEAN5S
	ROW5(Y0)
	ROW5(Y1)
	ROW5(Y2)
	ROW5(Y3)
	ROW5(Y4)
	MEAN5(Y0, Y1, Y2, Y3, Y4)
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// HALF5 is ROW5 for every second pixel, in the order 0, 1, 4, 5, 2, 3, 6, 7.
#define HALF5(a) \
	VMOVUPS (SI), Y5            \
	VMOVUPS 32(SI), Y6          \
	VSHUFPS $0x88, Y6, Y5, a    \
	VSHUFPS $0xdd, Y6, Y5, Y9   \
	VMOVUPS 8(SI), Y5           \
	VMOVUPS 40(SI), Y6          \
	VSHUFPS $0x88, Y6, Y5, Y10  \
	VSHUFPS $0xdd, Y6, Y5, Y11  \
	VMOVUPS 16(SI), Y5          \
	VMOVUPS 48(SI), Y6          \
	VSHUFPS $0x88, Y6, Y5, Y12  \
	MEAN5(a, Y9, Y10, Y11, Y12) \
	ADDQ R8, SI

// func half5AVX2(dst, v *float32, stride int)
TEXT ·half5AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ stride+16(FP), R8
	SHLQ $2, R8
	MEAN5S
	HALF5(Y0)
	HALF5(Y1)
	HALF5(Y2)
	HALF5(Y3)
	HALF5(Y4)
	MEAN5(Y0, Y1, Y2, Y3, Y4)
	VPERMPD $0xd8, Y0, Y0
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// MEAN3 sets a to what mean3 makes of a, b and c; Y15 is 1/4.
#define MEAN3(a, b, c) \
	VADDPS c, a, a   \
	VADDPS b, b, b   \
	VADDPS b, a, a   \
	VMULPS Y15, a, a

#define ROW3(a) \
	VMOVUPS (SI), a   \
	VMOVUPS 4(SI), Y5 \
	VMOVUPS 8(SI), Y6 \
	MEAN3(a, Y5, Y6)  \
	ADDQ R8, SI

// func mean3AVX2(dst, v *float32, stride int)
TEXT ·mean3AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ stride+16(FP), R8
	SHLQ $2, R8
	MOVL $0x3e800000, AX
	VMOVD AX, X15
	VPBROADCASTD X15, Y15
	ROW3(Y0)
	ROW3(Y1)
	ROW3(Y2)
	MEAN3(Y0, Y1, Y2)
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// SPLINE sets a to the sum of four columns of a row by their weights, Y8 to Y11, times the scale, Y15. Y4 to Y7 say
// where the columns are.
#define SPLINE(a) \
	VMOVUPS (SI), Y12        \
	VPERMPS Y12, Y4, a       \
	VMULPS Y8, a, a          \
	VPERMPS Y12, Y5, Y13     \
	VMULPS Y9, Y13, Y13      \
	VADDPS Y13, a, a         \
	VPERMPS Y12, Y6, Y13     \
	VMULPS Y10, Y13, Y13     \
	VADDPS Y13, a, a         \
	VPERMPS Y12, Y7, Y13     \
	VMULPS Y11, Y13, Y13     \
	VADDPS Y13, a, a         \
	VMULPS Y15, a, a         \
	ADDQ R8, SI

// func splineAVX2(dst, v *float32, stride int, columns *float32, step int, rows *[4]float32, from *[8]int32,
//	scale float32)
TEXT ·splineAVX2(SB), NOSPLIT, $0-60
	MOVQ dst+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ columns+24(FP), R9
	MOVQ step+32(FP), R10
	MOVQ rows+40(FP), R11
	MOVQ from+48(FP), R12
	VBROADCASTSS scale+56(FP), Y15
	SHLQ $2, R8
	SHLQ $2, R10
	VMOVDQU (R12), Y4
	VPCMPEQD Y12, Y12, Y12
	VPSUBD Y12, Y4, Y5
	VPSUBD Y12, Y5, Y6
	VPSUBD Y12, Y6, Y7
	VMOVUPS (R9), Y8
	ADDQ R10, R9
	VMOVUPS (R9), Y9
	ADDQ R10, R9
	VMOVUPS (R9), Y10
	ADDQ R10, R9
	VMOVUPS (R9), Y11
	SPLINE(Y0)
	SPLINE(Y1)
	SPLINE(Y2)
	SPLINE(Y3)
	VBROADCASTSS (R11), Y8
	VBROADCASTSS 4(R11), Y9
	VBROADCASTSS 8(R11), Y10
	VBROADCASTSS 12(R11), Y11
	VMULPS Y8, Y0, Y0
	VMULPS Y9, Y1, Y1
	VADDPS Y1, Y0, Y0
	VMULPS Y10, Y2, Y2
	VADDPS Y2, Y0, Y0
	VMULPS Y11, Y3, Y3
	VADDPS Y3, Y0, Y0
	VMULPS Y15, Y0, Y0
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET
