//go:build !purego

// Kernels of MaskReduce for AVX-512 as of Ice Lake and Zen 4. What they compute is said at their twins in
// mask_reduce_kernels.go, and how they may be called in mask_reduce_amd64.go.

#include "go_asm.h"
#include "textflag.h"

// LEAST leaves the least byte of z in the register r. t is spoiled.
#define LEAST(z, y, x, ty, tx, r) \
	VEXTRACTI64X4 $1, z, ty \
	VPMINUB ty, y, y        \
	VEXTRACTI128 $1, y, tx  \
	VPMINUB tx, x, x        \
	VPSRLW $8, x, tx        \
	VPMINUB tx, x, x        \
	VPHMINPOSUW x, x        \
	VPEXTRB $0, x, r

// TOTAL leaves the sum of the eight uint64 of z in the register r.
#define TOTAL(z, y, x, ty, tx, r) \
	VEXTRACTI64X4 $1, z, ty \
	VPADDQ ty, y, y         \
	VEXTRACTI128 $1, y, tx  \
	VPADDQ tx, x, x         \
	VPSRLDQ $8, x, tx       \
	VPADDQ tx, x, x         \
	VMOVQ x, r

// func sums8AVX512(p *byte, n int) (sum, sumSq, least, most uint64)
//
// With s = v - 128, which is a signed byte, v*v = v*s + 128*v, and VPDPBUSD adds up four v*s at a time in an int32, each at
// most 255*127. It overflows beyond 16577 steps.
TEXT ·sums8AVX512(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VPXORQ Z15, Z15, Z15            // 0
	VPTERNLOGQ $0xff, Z0, Z0, Z0    // least
	VPXORQ Z1, Z1, Z1               // most
	VPXORQ Z2, Z2, Z2               // sum
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4               // v*s, int32
	VPXORQ Z5, Z5, Z5
	MOVL $0x80808080, AX
	VPBROADCASTD AX, Z14
	SUBQ $128, CX
	JLT single

pair:
	VMOVDQU64 (SI), Z6
	VMOVDQU64 64(SI), Z7
	VPXORQ Z14, Z6, Z8
	VPXORQ Z14, Z7, Z9
	VPMINUB Z6, Z0, Z0
	VPMAXUB Z6, Z1, Z1
	VPSADBW Z15, Z6, Z10
	VPADDQ Z10, Z2, Z2
	VPDPBUSD Z8, Z6, Z4
	VPMINUB Z7, Z0, Z0
	VPMAXUB Z7, Z1, Z1
	VPSADBW Z15, Z7, Z11
	VPADDQ Z11, Z3, Z3
	VPDPBUSD Z9, Z7, Z5
	SUBQ $-128, SI
	SUBQ $128, CX
	JGE pair

single:
	ADDQ $128, CX
	JZ done
	MOVQ $-1, AX                    // ones for the bytes that count
	CMPQ CX, $64
	JGE whole
	BZHIQ CX, AX, AX

whole:
	KMOVQ AX, K1
	VMOVDQU8.Z (SI), K1, Z6
	VPXORQ Z14, Z6, Z8
	VPMINUB Z6, Z0, K1, Z0
	VPMAXUB Z6, Z1, Z1
	VPSADBW Z15, Z6, Z10
	VPADDQ Z10, Z2, Z2
	VPDPBUSD Z8, Z6, Z4
	ADDQ $64, SI
	SUBQ $192, CX                   // what is left, less 128
	CMPQ CX, $-128
	JGT single

done:
	VPADDQ Z3, Z2, Z2
	TOTAL(Z2, Y2, X2, Y10, X10, BX)
	VEXTRACTI64X4 $1, Z4, Y10
	VEXTRACTI64X4 $1, Z5, Y11
	VPMOVSXDQ Y4, Z4
	VPMOVSXDQ Y5, Z5
	VPMOVSXDQ Y10, Z10
	VPMOVSXDQ Y11, Z11
	VPADDQ Z5, Z4, Z4
	VPADDQ Z11, Z10, Z10
	VPADDQ Z10, Z4, Z4
	TOTAL(Z4, Y4, X4, Y10, X10, AX)
	MOVQ BX, sum+16(FP)
	SHLQ $7, BX
	ADDQ BX, AX
	MOVQ AX, sumSq+24(FP)
	VPTERNLOGQ $0x0f, Z1, Z1, Z1    // the most is the complement's least
	LEAST(Z0, Y0, X0, Y10, X10, AX)
	LEAST(Z1, Y1, X1, Y10, X10, BX)
	XORQ $0xff, BX
	MOVQ AX, least+32(FP)
	MOVQ BX, most+40(FP)
	VZEROUPPER
	RET

// func packAVX512(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)
//
// As packAVX2, in steps of 64 bytes.
TEXT ·packAVX512(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ frame+16(FP), SI
	MOVQ where+24(FP), DX
	MOVQ spans+32(FP), BX
	XORQ R8, R8
	MOVQ DI, R9
	ADDQ room+8(FP), R9

next:
	CMPQ R8, n+40(FP)
	JGE done
	MOVLQSX 0(BX), AX
	MOVL 4(BX), R10
	MOVL 8(BX), R11
	SUBQ geometry_row0(DX), AX
	CMPQ AX, geometry_height(DX)
	JAE done
	CMPQ R11, geometry_width(DX)
	JA done
	SUBQ R10, R11
	JLE done
	IMULQ geometry_stride(DX), AX
	MOVQ geometry_pixel(DX), R12
	IMULQ R12, R10
	IMULQ R12, R11
	ADDQ R10, AX
	LEAQ (AX)(R11*1), R12
	CMPQ R12, geometry_safe(DX)
	JG done
	LEAQ (DI)(R11*1), R13
	CMPQ R13, R9
	JA done
	ADDQ SI, AX

copy:
	VMOVDQU64 (AX), Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, AX
	ADDQ $64, DI
	CMPQ DI, R13
	JB copy

	MOVQ R13, DI
	ADDQ $12, BX
	INCQ R8
	JMP next

done:
	SUBQ dst+0(FP), DI
	MOVQ R8, taken+48(FP)
	MOVQ DI, bytes+56(FP)
	VZEROUPPER
	RET

// Byte b of each qword q to byte q of qword b.
DATA planes<>+0(SB)/8, $0x3830282018100800
DATA planes<>+8(SB)/8, $0x3931292119110901
DATA planes<>+16(SB)/8, $0x3a322a221a120a02
DATA planes<>+24(SB)/8, $0x3b332b231b130b03
DATA planes<>+32(SB)/8, $0x3c342c241c140c04
DATA planes<>+40(SB)/8, $0x3d352d251d150d05
DATA planes<>+48(SB)/8, $0x3e362e261e160e06
DATA planes<>+56(SB)/8, $0x3f372f271f170f07
GLOBL planes<>(SB), RODATA|NOPTR, $64

// MINTERMS stores the sixteen products of four bit planes or their complements: number l at 64*l from off(DI). Z31 is ones,
// Z16 to Z25 are spoiled.
#define MINTERMS(p0, p1, p2, p3, off) \
	VPANDQ p1, p0, Z19               \
	VPANDNQ p1, p0, Z18              \
	VPANDNQ p0, p1, Z17              \
	VPTERNLOGQ $0x11, p1, p0, Z16    \
	VPANDQ p3, p2, Z23               \
	VPANDNQ p3, p2, Z22              \
	VPANDNQ p2, p3, Z21              \
	VPTERNLOGQ $0x11, p3, p2, Z20    \
	FOUR(Z20, off)                   \
	FOUR(Z21, off+256)               \
	FOUR(Z22, off+512)               \
	FOUR(Z23, off+768)

#define FOUR(high, off) \
	VPANDQ Z16, high, Z24          \
	VPANDQ Z17, high, Z25          \
	VMOVDQU64 Z24, (off)(DI)       \
	VMOVDQU64 Z25, (off+64)(DI)    \
	VPANDQ Z18, high, Z24          \
	VPANDQ Z19, high, Z25          \
	VMOVDQU64 Z24, (off+128)(DI)   \
	VMOVDQU64 Z25, (off+192)(DI)

// COUNT adds the pixels that are in both Z16 and the minterm at off(SI) to acc.
#define COUNT(off, t, acc) \
	VPANDQ (off)(SI), Z16, t \
	VPOPCNTQ t, t            \
	VPADDQ t, acc, acc

// FIELDS puts the low 16 bits of the qwords of four vectors beside each other in a.
#define FIELDS(a, b, c, d) \
	VPSLLQ $16, b, b \
	VPSLLQ $32, c, c \
	VPSLLQ $48, d, d \
	VPORQ b, a, a    \
	VPORQ d, c, c    \
	VPORQ c, a, a

// func hist8AVX512(p *byte, n int, least, most uint64, hist *[256]uint32, scratch *[16384]byte)
//
// Pixels are turned into bit planes, a vector of 512 pixels for each of the eight bits. Products of the planes of the
// four high bits, or their complements, tell which pixels have a given high digit, and likewise for the low digit. The
// count of a value is the number of ones in the product of both. So the cost is in the number of high digits that
// occur, and not, as with counters in memory, in each pixel's load and store: measured 1.6 to 5 times as fast as
// four tables of counters.
//
// A block is up to eight groups of 512 pixels. The last group is filled up with the least value, which is then
// subtracted.
TEXT ·hist8AVX512(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), R8
	MOVQ n+8(FP), R9
	MOVQ least+16(FP), AX
	MOVQ hist+32(FP), R10
	VMOVDQU64 planes<>(SB), Z30
	MOVQ $0x8040201008040201, BX
	VPBROADCASTQ BX, Z29            // the unit matrix of 8x8 bits

	// Fill up: eight vectors from the end on reach the end of the group.
	VPBROADCASTB AX, Z0
	LEAQ (R8)(R9*1), BX
	VMOVDQU64 Z0, (BX)
	VMOVDQU64 Z0, 64(BX)
	VMOVDQU64 Z0, 128(BX)
	VMOVDQU64 Z0, 192(BX)
	VMOVDQU64 Z0, 256(BX)
	VMOVDQU64 Z0, 320(BX)
	VMOVDQU64 Z0, 384(BX)
	VMOVDQU64 Z0, 448(BX)
	MOVQ R9, BX
	NEGQ BX
	ANDQ $511, BX
	SUBL BX, (R10)(AX*4)
	ADDQ BX, R9
	SHRQ $9, R9                     // groups

	MOVQ AX, R11
	SHRQ $4, R11                    // first high digit
	MOVQ most+24(FP), R12
	SHRQ $4, R12                    // last high digit

nextblock:
	MOVQ $8, R13
	CMPQ R9, R13
	CMOVQLT R9, R13                 // groups of this block
	MOVQ R13, CX
	MOVQ scratch+40(FP), DI

group:
	// A product of bit matrices turns each eight pixels into eight bits for each plane.
	VGF2P8AFFINEQB $0, (R8), Z29, Z0
	VGF2P8AFFINEQB $0, 64(R8), Z29, Z1
	VGF2P8AFFINEQB $0, 128(R8), Z29, Z2
	VGF2P8AFFINEQB $0, 192(R8), Z29, Z3
	VGF2P8AFFINEQB $0, 256(R8), Z29, Z4
	VGF2P8AFFINEQB $0, 320(R8), Z29, Z5
	VGF2P8AFFINEQB $0, 384(R8), Z29, Z6
	VGF2P8AFFINEQB $0, 448(R8), Z29, Z7
	VPERMB Z0, Z30, Z0
	VPERMB Z1, Z30, Z1
	VPERMB Z2, Z30, Z2
	VPERMB Z3, Z30, Z3
	VPERMB Z4, Z30, Z4
	VPERMB Z5, Z30, Z5
	VPERMB Z6, Z30, Z6
	VPERMB Z7, Z30, Z7
	// Transpose 8x8 qwords, so that Zi becomes plane i.
	VPUNPCKLQDQ Z1, Z0, Z8          // planes 0 2 4 6 of vectors 0, 1
	VPUNPCKHQDQ Z1, Z0, Z9          // planes 1 3 5 7
	VPUNPCKLQDQ Z3, Z2, Z10
	VPUNPCKHQDQ Z3, Z2, Z11
	VPUNPCKLQDQ Z5, Z4, Z12
	VPUNPCKHQDQ Z5, Z4, Z13
	VPUNPCKLQDQ Z7, Z6, Z14
	VPUNPCKHQDQ Z7, Z6, Z15
	VSHUFI64X2 $0x88, Z10, Z8, Z16  // planes 0 4 of vectors 0 to 3
	VSHUFI64X2 $0xdd, Z10, Z8, Z17  // planes 2 6
	VSHUFI64X2 $0x88, Z11, Z9, Z18  // planes 1 5
	VSHUFI64X2 $0xdd, Z11, Z9, Z19  // planes 3 7
	VSHUFI64X2 $0x88, Z14, Z12, Z20
	VSHUFI64X2 $0xdd, Z14, Z12, Z21
	VSHUFI64X2 $0x88, Z15, Z13, Z22
	VSHUFI64X2 $0xdd, Z15, Z13, Z23
	VSHUFI64X2 $0x88, Z20, Z16, Z0
	VSHUFI64X2 $0xdd, Z20, Z16, Z4
	VSHUFI64X2 $0x88, Z22, Z18, Z1
	VSHUFI64X2 $0xdd, Z22, Z18, Z5
	VSHUFI64X2 $0x88, Z21, Z17, Z2
	VSHUFI64X2 $0xdd, Z21, Z17, Z6
	VSHUFI64X2 $0x88, Z23, Z19, Z3
	VSHUFI64X2 $0xdd, Z23, Z19, Z7
	MINTERMS(Z0, Z1, Z2, Z3, 0)
	MINTERMS(Z4, Z5, Z6, Z7, 1024)
	ADDQ $512, R8
	ADDQ $2048, DI
	DECQ CX
	JNZ group

	MOVQ R11, DX                    // high digit

digit:
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7
	VPXORQ Z8, Z8, Z8
	VPXORQ Z9, Z9, Z9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11
	VPXORQ Z12, Z12, Z12
	VPXORQ Z13, Z13, Z13
	VPXORQ Z14, Z14, Z14
	VPXORQ Z15, Z15, Z15
	MOVQ scratch+40(FP), SI
	MOVQ DX, AX
	SHLQ $6, AX
	MOVQ R13, CX

count:
	VMOVDQU64 1024(SI)(AX*1), Z16
	COUNT(0, Z17, Z0)
	COUNT(64, Z18, Z1)
	COUNT(128, Z19, Z2)
	COUNT(192, Z20, Z3)
	COUNT(256, Z21, Z4)
	COUNT(320, Z22, Z5)
	COUNT(384, Z23, Z6)
	COUNT(448, Z24, Z7)
	COUNT(512, Z17, Z8)
	COUNT(576, Z18, Z9)
	COUNT(640, Z19, Z10)
	COUNT(704, Z20, Z11)
	COUNT(768, Z21, Z12)
	COUNT(832, Z22, Z13)
	COUNT(896, Z23, Z14)
	COUNT(960, Z24, Z15)
	ADDQ $2048, SI
	DECQ CX
	JNZ count

	// Each count is the sum over eight qwords, 4096 at most: four fit in a qword.
	FIELDS(Z0, Z1, Z2, Z3)
	FIELDS(Z4, Z5, Z6, Z7)
	FIELDS(Z8, Z9, Z10, Z11)
	FIELDS(Z12, Z13, Z14, Z15)
	VPUNPCKLQDQ Z4, Z0, Z16
	VPUNPCKHQDQ Z4, Z0, Z17
	VPUNPCKLQDQ Z12, Z8, Z18
	VPUNPCKHQDQ Z12, Z8, Z19
	VPADDQ Z17, Z16, Z16            // values 0 to 7, in four quarters
	VPADDQ Z19, Z18, Z18            // values 8 to 15
	VSHUFI64X2 $0x44, Z18, Z16, Z0
	VSHUFI64X2 $0xee, Z18, Z16, Z1
	VPADDQ Z1, Z0, Z0
	VSHUFI64X2 $0xb1, Z0, Z0, Z1
	VPADDQ Z1, Z0, Z0               // quarters: 0 to 7 twice, 8 to 15 twice
	VSHUFI64X2 $0x08, Z0, Z0, Z0
	VPMOVZXWD Y0, Z0
	MOVQ DX, AX
	SHLQ $6, AX
	VPADDD (R10)(AX*1), Z0, Z0
	VMOVDQU64 Z0, (R10)(AX*1)
	INCQ DX
	CMPQ DX, R12
	JLE digit

	SUBQ R13, R9
	JNZ nextblock
	VZEROUPPER
	RET
