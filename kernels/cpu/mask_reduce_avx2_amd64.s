//go:build !purego

// Kernels of MaskReduce for AVX2. What they compute is said at their twins in mask_reduce_kernels.go, and how they may be
// called in mask_reduce_amd64.go. All loads may reach up to 31 bytes past the end of the input.

#include "go_asm.h"
#include "textflag.h"

// 32 ones, then 32 zeros: the 32 bytes from offset 32-n keep the first n bytes of a vector.
DATA keep<>+0(SB)/8, $0xffffffffffffffff
DATA keep<>+8(SB)/8, $0xffffffffffffffff
DATA keep<>+16(SB)/8, $0xffffffffffffffff
DATA keep<>+24(SB)/8, $0xffffffffffffffff
DATA keep<>+32(SB)/8, $0
DATA keep<>+40(SB)/8, $0
DATA keep<>+48(SB)/8, $0
DATA keep<>+56(SB)/8, $0
GLOBL keep<>(SB), RODATA|NOPTR, $64

// The weights 0 to 31.
DATA iota8<>+0(SB)/8, $0x0706050403020100
DATA iota8<>+8(SB)/8, $0x0f0e0d0c0b0a0908
DATA iota8<>+16(SB)/8, $0x1716151413121110
DATA iota8<>+24(SB)/8, $0x1f1e1d1c1b1a1918
GLOBL iota8<>(SB), RODATA|NOPTR, $32

// ADDUP sums the four uint64 of y into the register r; x is the low half of y and t a vector to spoil.
#define ADDUP(y, x, t, r) \
	VEXTRACTI128 $1, y, t \
	VPADDQ t, x, x        \
	VPSRLDQ $8, x, t      \
	VPADDQ t, x, x        \
	VMOVQ x, r

// WIDEN adds up neighbouring uint32 of y into uint64; t is spoiled, zero is 0.
#define WIDEN(y, t, zero) \
	VPSRLQ $32, y, t              \
	VPBLENDD $0xaa, zero, y, y    \
	VPADDQ t, y, y

// func sums8AVX2(p *byte, n int) (sum, sumSq, least, most uint64)
//
// Squares: two 16-bit products are added at a time, at most 2*255^2, to two sets of uint32. They overflow beyond
// 33024 steps of 32 bytes.
TEXT ·sums8AVX2(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VPXOR Y15, Y15, Y15    // 0
	VPCMPEQB Y0, Y0, Y0    // least
	VPXOR Y1, Y1, Y1       // most
	VPXOR Y2, Y2, Y2       // sum, uint64
	VPXOR Y3, Y3, Y3       // squares, uint32
	VPXOR Y8, Y8, Y8
	SUBQ $32, CX
	JLT tail

block:
	VMOVDQU (SI), Y4
	VPMINUB Y4, Y0, Y0
	VPMAXUB Y4, Y1, Y1
	VPSADBW Y15, Y4, Y5
	VPADDQ Y5, Y2, Y2
	VPUNPCKLBW Y15, Y4, Y6
	VPUNPCKHBW Y15, Y4, Y7
	VPMADDWD Y6, Y6, Y6
	VPMADDWD Y7, Y7, Y7
	VPADDD Y6, Y3, Y3
	VPADDD Y7, Y8, Y8
	ADDQ $32, SI
	SUBQ $32, CX
	JGE block

tail:
	ADDQ $32, CX
	JZ done
	LEAQ keep<>+32(SB), DX
	SUBQ CX, DX
	VMOVDQU (DX), Y9       // ones for the bytes that count
	VMOVDQU (SI), Y4
	VPCMPEQB Y10, Y10, Y10
	VPXOR Y9, Y10, Y10
	VPAND Y9, Y4, Y4
	VPOR Y10, Y4, Y10
	VPMINUB Y10, Y0, Y0
	VPMAXUB Y4, Y1, Y1
	VPSADBW Y15, Y4, Y5
	VPADDQ Y5, Y2, Y2
	VPUNPCKLBW Y15, Y4, Y6
	VPUNPCKHBW Y15, Y4, Y7
	VPMADDWD Y6, Y6, Y6
	VPMADDWD Y7, Y7, Y7
	VPADDD Y6, Y3, Y3
	VPADDD Y7, Y8, Y8

done:
	ADDUP(Y2, X2, X5, AX)
	MOVQ AX, sum+16(FP)
	WIDEN(Y3, Y5, Y15)
	WIDEN(Y8, Y5, Y15)
	VPADDQ Y8, Y3, Y3
	ADDUP(Y3, X3, X5, AX)
	MOVQ AX, sumSq+24(FP)
	// The least of bytes is that of words, each the lesser of its two bytes. The most is the complement's least.
	VPCMPEQB Y10, Y10, Y10
	VPXOR Y10, Y1, Y1
	VEXTRACTI128 $1, Y0, X4
	VEXTRACTI128 $1, Y1, X5
	VPMINUB X4, X0, X0
	VPMINUB X5, X1, X1
	VPSRLW $8, X0, X4
	VPSRLW $8, X1, X5
	VPMINUB X4, X0, X0
	VPMINUB X5, X1, X1
	VPHMINPOSUW X0, X0
	VPHMINPOSUW X1, X1
	VPEXTRB $0, X0, AX
	VPEXTRB $0, X1, BX
	XORQ $0xff, BX
	MOVQ AX, least+32(FP)
	MOVQ BX, most+40(FP)
	VZEROUPPER
	RET

// func moments8AVX2(p *byte, n int) (sum, first uint64)
//
// With blocks b of 32 bytes whose sums are s_b, first = 32*sum(b*s_b) + sum(j*v_j), j within the block. Adding up the running sum of
// s_b after each of m blocks gives sum((m-b)*s_b).
TEXT ·moments8AVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VPXOR Y15, Y15, Y15
	VMOVDQU iota8<>(SB), Y14
	VPCMPEQW Y13, Y13, Y13
	VPSRLW $15, Y13, Y13   // 16-bit ones
	VPXOR Y2, Y2, Y2       // s_b, uint64
	VPXOR Y3, Y3, Y3       // running sums of it
	VPXOR Y8, Y8, Y8       // j*v_j, int32
	LEAQ 31(CX), BX
	SHRQ $5, BX            // m
	SUBQ $32, CX
	JLT tail

block:
	VMOVDQU (SI), Y4
	VPSADBW Y15, Y4, Y5
	VPADDQ Y5, Y2, Y2
	VPADDQ Y2, Y3, Y3
	VPMADDUBSW Y14, Y4, Y6
	VPMADDWD Y13, Y6, Y6
	VPADDD Y6, Y8, Y8
	ADDQ $32, SI
	SUBQ $32, CX
	JGE block

tail:
	ADDQ $32, CX
	JZ done
	LEAQ keep<>+32(SB), DX
	SUBQ CX, DX
	VMOVDQU (DX), Y9
	VPAND (SI), Y9, Y4
	VPSADBW Y15, Y4, Y5
	VPADDQ Y5, Y2, Y2
	VPADDQ Y2, Y3, Y3
	VPMADDUBSW Y14, Y4, Y6
	VPMADDWD Y13, Y6, Y6
	VPADDD Y6, Y8, Y8

done:
	WIDEN(Y8, Y5, Y15)
	ADDUP(Y2, X2, X5, AX)
	ADDUP(Y3, X3, X5, DX)
	ADDUP(Y8, X8, X5, DI)
	MOVQ AX, sum+16(FP)
	IMULQ BX, AX
	SUBQ DX, AX
	SHLQ $5, AX
	ADDQ DI, AX
	MOVQ AX, first+24(FP)
	VZEROUPPER
	RET

// func sums16AVX2(p *byte, n int) (sum, sumSq, least, most uint64)
//
// With s = v - 2^15, which is a signed 16-bit number, v = s + 2^15 and v^2 = s^2 + 2^16*s + 2^30. Two squares add up
// to at most 2^31, which is right when it is taken as unsigned.
TEXT ·sums16AVX2(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VPXOR Y15, Y15, Y15
	VPCMPEQW Y13, Y13, Y13
	VPSLLW $15, Y13, Y12   // 2^15
	VPSRLW $15, Y13, Y13   // ones
	VPCMPEQB Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2       // s, int32
	VPXOR Y3, Y3, Y3       // squares, uint64
	VPXOR Y8, Y8, Y8
	SUBQ $16, CX
	JLT tail

block:
	VMOVDQU (SI), Y4
	VPMINUW Y4, Y0, Y0
	VPMAXUW Y4, Y1, Y1
	VPXOR Y12, Y4, Y4
	VPMADDWD Y13, Y4, Y5
	VPADDD Y5, Y2, Y2
	VPMADDWD Y4, Y4, Y6
	VPSRLQ $32, Y6, Y7
	VPBLENDD $0xaa, Y15, Y6, Y6
	VPADDQ Y6, Y3, Y3
	VPADDQ Y7, Y8, Y8
	ADDQ $32, SI
	SUBQ $16, CX
	JGE block

tail:
	ADDQ $16, CX
	JZ done
	LEAQ keep<>+32(SB), DX
	SUBQ CX, DX
	SUBQ CX, DX
	VMOVDQU (DX), Y9
	VMOVDQU (SI), Y4
	VPCMPEQB Y10, Y10, Y10
	VPXOR Y9, Y10, Y10
	VPAND Y9, Y4, Y11
	VPOR Y10, Y4, Y10
	VPMINUW Y10, Y0, Y0
	VPMAXUW Y11, Y1, Y1
	VPXOR Y12, Y4, Y4
	VPAND Y9, Y4, Y4
	VPMADDWD Y13, Y4, Y5
	VPADDD Y5, Y2, Y2
	VPMADDWD Y4, Y4, Y6
	VPSRLQ $32, Y6, Y7
	VPBLENDD $0xaa, Y15, Y6, Y6
	VPADDQ Y6, Y3, Y3
	VPADDQ Y7, Y8, Y8

done:
	VPADDQ Y8, Y3, Y3
	ADDUP(Y3, X3, X5, DI)
	VEXTRACTI128 $1, Y2, X5
	VPMOVSXDQ X2, Y6
	VPMOVSXDQ X5, Y7
	VPADDQ Y7, Y6, Y6
	ADDUP(Y6, X6, X5, AX)
	MOVQ n+8(FP), CX
	MOVQ AX, BX
	SHLQ $16, BX
	ADDQ BX, DI
	MOVQ CX, BX
	SHLQ $30, BX
	ADDQ BX, DI
	SHLQ $15, CX
	ADDQ CX, AX
	MOVQ AX, sum+16(FP)
	MOVQ DI, sumSq+24(FP)
	VPCMPEQB Y10, Y10, Y10
	VPXOR Y10, Y1, Y1
	VEXTRACTI128 $1, Y0, X4
	VEXTRACTI128 $1, Y1, X5
	VPMINUW X4, X0, X0
	VPMINUW X5, X1, X1
	VPHMINPOSUW X0, X0
	VPHMINPOSUW X1, X1
	VPEXTRW $0, X0, AX
	VPEXTRW $0, X1, BX
	XORQ $0xffff, BX
	MOVQ AX, least+32(FP)
	MOVQ BX, most+40(FP)
	VZEROUPPER
	RET

DATA iota16<>+0(SB)/8, $0x0000000100000000
DATA iota16<>+8(SB)/8, $0x0000000300000002
DATA iota16<>+16(SB)/8, $0x0000000500000004
DATA iota16<>+24(SB)/8, $0x0000000700000006
GLOBL iota16<>(SB), RODATA|NOPTR, $32

// MOMENTS16 takes eight samples, widened to 32 bits in Y4.
#define MOMENTS16 \
	VPADDD Y4, Y2, Y2    \
	VPMULUDQ Y14, Y4, Y6 \
	VPADDQ Y6, Y3, Y3    \
	VPSRLQ $32, Y4, Y5   \
	VPSRLQ $32, Y14, Y7  \
	VPMULUDQ Y7, Y5, Y5  \
	VPADDQ Y5, Y8, Y8    \
	VPADDD Y13, Y14, Y14

// func moments16AVX2(p *byte, n int) (sum, first uint64)
//
// The sum is kept in eight uint32, so n must be less than 2^19.
TEXT ·moments16AVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VPXOR Y15, Y15, Y15
	VMOVDQU iota16<>(SB), Y14  // indices, uint32
	VPCMPEQD Y13, Y13, Y13
	VPSRLD $31, Y13, Y13
	VPSLLD $3, Y13, Y13        // eights
	VPXOR Y2, Y2, Y2           // sum, uint32
	VPXOR Y3, Y3, Y3           // first, uint64
	VPXOR Y8, Y8, Y8
	SUBQ $8, CX
	JLT tail

block:
	VPMOVZXWD (SI), Y4
	MOMENTS16
	ADDQ $16, SI
	SUBQ $8, CX
	JGE block

tail:
	ADDQ $8, CX
	JZ done
	LEAQ keep<>+32(SB), DX
	SUBQ CX, DX
	SUBQ CX, DX
	VMOVDQU (DX), X9
	VPAND (SI), X9, X4
	VPMOVZXWD X4, Y4
	MOMENTS16

done:
	VPADDQ Y8, Y3, Y3
	WIDEN(Y2, Y5, Y15)
	ADDUP(Y2, X2, X5, AX)
	ADDUP(Y3, X3, X5, DX)
	MOVQ AX, sum+16(FP)
	MOVQ DX, first+24(FP)
	VZEROUPPER
	RET

// func index16AVX2(p *byte, n int, v uint64) int
TEXT ·index16AVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VMOVQ v+16(FP), X0
	VPBROADCASTW X0, Y0
	XORQ BX, BX

block:
	CMPQ BX, CX
	JGE none
	VPCMPEQW (SI)(BX*2), Y0, Y1
	VPMOVMSKB Y1, AX
	TESTL AX, AX
	JNZ found
	ADDQ $16, BX
	JMP block

found:
	BSFL AX, AX
	SHRL $1, AX
	ADDQ AX, BX
	CMPQ BX, CX
	JGE none
	MOVQ BX, ret+24(FP)
	VZEROUPPER
	RET

none:
	MOVQ $-1, ret+24(FP)
	VZEROUPPER
	RET

// PIXELS2 counts two bytes of a register in two tables.
#define PIXELS2(low, high, table) \
	MOVBLZX low, CX                     \
	MOVBLZX high, DX                    \
	INCL (table)(DI)(CX*4)              \
	INCL (table+1024)(DI)(DX*4)

// func hist8AVX2(p *byte, n int, hist *[256]uint32, scratch *[16384]byte)
//
// Four tables, because a count that was just stored takes long to load again, and neighbours are often equal.
TEXT ·hist8AVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), R11
	MOVQ hist+16(FP), R8
	MOVQ scratch+24(FP), DI
	VPXOR Y0, Y0, Y0
	XORL AX, AX

zero:
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y0, 1024(DI)(AX*1)
	VMOVDQU Y0, 2048(DI)(AX*1)
	VMOVDQU Y0, 3072(DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, $1024
	JB zero
	SUBQ $8, R11
	JLT tail

eight:
	MOVQ (SI), AX
	PIXELS2(AL, AH, 0)
	SHRQ $16, AX
	PIXELS2(AL, AH, 2048)
	SHRQ $16, AX
	PIXELS2(AL, AH, 0)
	SHRQ $16, AX
	PIXELS2(AL, AH, 2048)
	ADDQ $8, SI
	SUBQ $8, R11
	JGE eight

tail:
	ADDQ $8, R11
	JZ fold

one:
	MOVBLZX (SI), AX
	INCL (DI)(AX*4)
	INCQ SI
	DECQ R11
	JNZ one

fold:
	XORL AX, AX

bins:
	VMOVDQU (DI)(AX*1), Y0
	VMOVDQU 1024(DI)(AX*1), Y1
	VPADDD 2048(DI)(AX*1), Y0, Y0
	VPADDD 3072(DI)(AX*1), Y1, Y1
	VPADDD Y1, Y0, Y0
	VPADDD (R8)(AX*1), Y0, Y0
	VMOVDQU Y0, (R8)(AX*1)
	ADDQ $32, AX
	CMPQ AX, $1024
	JB bins
	VZEROUPPER
	RET

// func hist16AVX2(p *byte, n int, hist *uint32, mask uint64)
//
// The compiler's bounds checks are what this saves: a third of the time.
TEXT ·hist16AVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ hist+16(FP), DI
	MOVQ mask+24(FP), R8
	SUBQ $4, CX
	JLT tail

four:
	MOVQ (SI), AX
	RORXQ $16, AX, BX
	CMPQ AX, BX
	JEQ equal                  // four equal samples, as in a background
	MOVQ AX, DX
	SHRQ $32, DX
	MOVWLZX AX, R9
	MOVWLZX BX, R10
	MOVWLZX DX, R11
	SHRQ $48, AX
	ANDQ R8, R9
	ANDQ R8, R10
	ANDQ R8, R11
	ANDQ R8, AX
	INCL (DI)(R9*4)
	INCL (DI)(R10*4)
	INCL (DI)(R11*4)
	INCL (DI)(AX*4)
	ADDQ $8, SI
	SUBQ $4, CX
	JGE four
	JMP tail

equal:
	MOVWLZX AX, AX
	ANDQ R8, AX
	ADDL $4, (DI)(AX*4)
	ADDQ $8, SI
	SUBQ $4, CX
	JGE four

tail:
	ADDQ $4, CX
	JZ done

one:
	MOVWLZX (SI), AX
	ANDQ R8, AX
	INCL (DI)(AX*4)
	ADDQ $2, SI
	DECQ CX
	JNZ one

done:
	RET

// func packAVX2(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)
//
// Copies in steps of 32 bytes, of which the last may reach past the end of a span, on both sides. The pixels two rows
// below are fetched meanwhile, because the processor does not guess where the next span is.
TEXT ·packAVX2(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ frame+16(FP), SI
	MOVQ where+24(FP), DX
	MOVQ spans+32(FP), BX
	XORQ R8, R8                // spans taken
	MOVQ DI, R9
	ADDQ room+8(FP), R9        // end of dst
	MOVQ geometry_stride(DX), CX
	ADDQ CX, CX

next:
	CMPQ R8, n+40(FP)
	JGE done
	MOVLQSX 0(BX), AX          // Y
	MOVL 4(BX), R10            // X0
	MOVL 8(BX), R11            // X1
	SUBQ geometry_row0(DX), AX
	CMPQ AX, geometry_height(DX)
	JAE done                   // above or below: as unsigned numbers
	CMPQ R11, geometry_width(DX)
	JA done
	SUBQ R10, R11              // pixels
	JLE done
	IMULQ geometry_stride(DX), AX
	MOVQ geometry_pixel(DX), R12
	IMULQ R12, R10
	IMULQ R12, R11             // bytes
	ADDQ R10, AX               // offset in the frame
	LEAQ (AX)(R11*1), R12
	CMPQ R12, geometry_safe(DX)
	JG done
	LEAQ (DI)(R11*1), R13
	CMPQ R13, R9
	JA done
	ADDQ SI, AX

copy:
	PREFETCHT0 (AX)(CX*1)
	VMOVDQU (AX), Y0
	VMOVDQU Y0, (DI)
	ADDQ $32, AX
	ADDQ $32, DI
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

// func split2AVX2(a, b, src *byte, n int)
TEXT ·split2AVX2(SB), NOSPLIT, $0-32
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	VPCMPEQW Y15, Y15, Y15
	VPSRLW $8, Y15, Y15        // 0x00ff

block:
	SUBQ $32, CX
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPAND Y15, Y0, Y2
	VPAND Y15, Y1, Y3
	VPSRLW $8, Y0, Y0
	VPSRLW $8, Y1, Y1
	VPACKUSWB Y3, Y2, Y2       // halves are packed apart: quarters 0 2 1 3
	VPACKUSWB Y1, Y0, Y0
	VPERMQ $0xd8, Y2, Y2
	VPERMQ $0xd8, Y0, Y0
	VMOVDQU Y2, (DI)
	VMOVDQU Y0, (R8)
	ADDQ $64, SI
	ADDQ $32, DI
	ADDQ $32, R8
	CMPQ CX, $0
	JG block
	VZEROUPPER
	RET

// Where the bytes of 16 pixels of three bytes go, for each channel from each third of the 48 bytes; 0x80 makes a 0.
DATA third<>+0(SB)/8, $0x80800f0c09060300
DATA third<>+8(SB)/8, $0x8080808080808080
DATA third<>+16(SB)/8, $0x0502808080808080
DATA third<>+24(SB)/8, $0x80808080800e0b08
DATA third<>+32(SB)/8, $0x8080808080808080
DATA third<>+40(SB)/8, $0x0d0a070401808080
DATA third<>+48(SB)/8, $0x8080800d0a070401
DATA third<>+56(SB)/8, $0x8080808080808080
DATA third<>+64(SB)/8, $0x0603008080808080
DATA third<>+72(SB)/8, $0x80808080800f0c09
DATA third<>+80(SB)/8, $0x8080808080808080
DATA third<>+88(SB)/8, $0x0e0b080502808080
DATA third<>+96(SB)/8, $0x8080800e0b080502
DATA third<>+104(SB)/8, $0x8080808080808080
DATA third<>+112(SB)/8, $0x0704018080808080
DATA third<>+120(SB)/8, $0x8080808080800d0a
DATA third<>+128(SB)/8, $0x8080808080808080
DATA third<>+136(SB)/8, $0x0f0c090603008080
GLOBL third<>(SB), RODATA|NOPTR, $144

#define CHANNEL3(m0, m1, m2, dst) \
	VPSHUFB m0, Y0, Y3  \
	VPSHUFB m1, Y1, Y4  \
	VPSHUFB m2, Y2, Y5  \
	VPOR Y4, Y3, Y3     \
	VPOR Y5, Y3, Y3     \
	VMOVDQU Y3, (dst)

// func split3AVX2(a, b, c, src *byte, n int)
//
// The halves of the vectors hold pixels 0 to 15 and 16 to 31.
TEXT ·split3AVX2(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), R8
	MOVQ c+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	VBROADCASTI128 third<>+0(SB), Y6
	VBROADCASTI128 third<>+16(SB), Y7
	VBROADCASTI128 third<>+32(SB), Y8
	VBROADCASTI128 third<>+48(SB), Y9
	VBROADCASTI128 third<>+64(SB), Y10
	VBROADCASTI128 third<>+80(SB), Y11
	VBROADCASTI128 third<>+96(SB), Y12
	VBROADCASTI128 third<>+112(SB), Y13
	VBROADCASTI128 third<>+128(SB), Y14

block:
	SUBQ $32, CX
	VMOVDQU (SI), X0
	VMOVDQU 16(SI), X1
	VMOVDQU 32(SI), X2
	VINSERTI128 $1, 48(SI), Y0, Y0
	VINSERTI128 $1, 64(SI), Y1, Y1
	VINSERTI128 $1, 80(SI), Y2, Y2
	CHANNEL3(Y6, Y7, Y8, DI)
	CHANNEL3(Y9, Y10, Y11, R8)
	CHANNEL3(Y12, Y13, Y14, R9)
	ADDQ $96, SI
	ADDQ $32, DI
	ADDQ $32, R8
	ADDQ $32, R9
	CMPQ CX, $0
	JG block
	VZEROUPPER
	RET

// Four pixels of four bytes to four bytes of each channel.
DATA fourth<>+0(SB)/8, $0x0d0905010c080400
DATA fourth<>+8(SB)/8, $0x0f0b07030e0a0602
GLOBL fourth<>(SB), RODATA|NOPTR, $16

// The dwords 0 4 1 5 2 6 3 7: they undo the order that unpacking within halves makes.
DATA halves<>+0(SB)/8, $0x0000000400000000
DATA halves<>+8(SB)/8, $0x0000000500000001
DATA halves<>+16(SB)/8, $0x0000000600000002
DATA halves<>+24(SB)/8, $0x0000000700000003
GLOBL halves<>(SB), RODATA|NOPTR, $32

// func split4AVX2(a, b, c, d, src *byte, n int)
TEXT ·split4AVX2(SB), NOSPLIT, $0-48
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), R8
	MOVQ c+16(FP), R9
	MOVQ d+24(FP), R10
	MOVQ src+32(FP), SI
	MOVQ n+40(FP), CX
	VBROADCASTI128 fourth<>(SB), Y14
	VMOVDQU halves<>(SB), Y15

block:
	SUBQ $32, CX
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	// Halves of vector i hold pixels 8i and 8i+4, each as a dword of each channel.
	VPSHUFB Y14, Y0, Y0
	VPSHUFB Y14, Y1, Y1
	VPSHUFB Y14, Y2, Y2
	VPSHUFB Y14, Y3, Y3
	VPUNPCKLDQ Y1, Y0, Y4      // a0 a1 b0 b1
	VPUNPCKHDQ Y1, Y0, Y5      // c0 c1 d0 d1
	VPUNPCKLDQ Y3, Y2, Y6
	VPUNPCKHDQ Y3, Y2, Y7
	VPUNPCKLQDQ Y6, Y4, Y0     // a: 0 8 16 24 | 4 12 20 28
	VPUNPCKHQDQ Y6, Y4, Y1
	VPUNPCKLQDQ Y7, Y5, Y2
	VPUNPCKHQDQ Y7, Y5, Y3
	VPERMD Y0, Y15, Y0
	VPERMD Y1, Y15, Y1
	VPERMD Y2, Y15, Y2
	VPERMD Y3, Y15, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (R8)
	VMOVDQU Y2, (R9)
	VMOVDQU Y3, (R10)
	SUBQ $-128, SI
	ADDQ $32, DI
	ADDQ $32, R8
	ADDQ $32, R9
	ADDQ $32, R10
	CMPQ CX, $0
	JG block
	VZEROUPPER
	RET
