//go:build !purego

// Kernels of diffusion for AVX2. What they compute is said at their twins in diffusion_kernels.go, and how they may be called in
// diffusion_kernels_amd64.go.

#include "go_asm.h"
#include "textflag.h"

// FLOW sets y to the differences between what is at p and the pixels, v, where bit 31-shift of open, o, is set, and to 0 elsewhere; t
// is spoiled.
#define FLOW(p, v, o, shift, t, y) \
	VMOVUPS p, y         \
	VPSLLD shift, o, t   \
	VSUBPS v, y, y       \
	VPSRAD $31, t, t     \
	VANDPS t, y, y

// func rowFlowsAVX2(dst, up, x, down *float32, open *uint8, n int)
TEXT ·rowFlowsAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ down+24(FP), R9
	MOVQ open+32(FP), R10
	MOVQ n+40(FP), CX
	XORQ AX, AX

loop:
	CMPQ AX, CX
	JGE done
	VPMOVZXBD (R10)(AX*1), Y1
	VMOVUPS (SI)(AX*4), Y0
	FLOW(4(SI)(AX*4), Y0, Y1, $31, Y6, Y2)  // openRight
	FLOW(-4(SI)(AX*4), Y0, Y1, $30, Y7, Y3) // openLeft
	FLOW((R9)(AX*4), Y0, Y1, $29, Y8, Y4)   // openDown
	FLOW((R8)(AX*4), Y0, Y1, $28, Y9, Y5)   // openUp
	VADDPS Y3, Y2, Y2
	VADDPS Y5, Y4, Y4
	VADDPS Y4, Y2, Y2
	VMOVUPS Y2, (DI)(AX*4)
	ADDQ $8, AX
	JMP loop

done:
	VZEROUPPER
	RET

// func nodeResidualsAVX2(dst, x, b *nodeValues, sink *float32, rows *graphRow, edges *graphEdge, from, to int)
TEXT ·nodeResidualsAVX2(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ b+16(FP), R9
	MOVQ sink+24(FP), R8
	MOVQ rows+32(FP), R10
	MOVQ edges+40(FP), R12
	MOVQ from+48(FP), AX
	MOVQ to+56(FP), BX

node:
	CMPQ AX, BX
	JGE done
	MOVQ AX, DX
	SHLQ $4, DX
	VMOVUPS (SI)(DX*1), X1
	VBROADCASTSS (R8)(AX*4), X2
	VMULPS X1, X2, X2
	VMOVUPS (R9)(DX*1), X0
	VSUBPS X2, X0, X0
	MOVLQSX (R10)(AX*8), CX
	MOVLQSX 4(R10)(AX*8), R11
	JMP more

edge:
	MOVLQSX (R12)(CX*8), R13
	VBROADCASTSS 4(R12)(CX*8), X3
	SHLQ $4, R13
	VMOVUPS (SI)(R13*1), X4
	VSUBPS X1, X4, X4
	VMULPS X3, X4, X4
	VADDPS X4, X0, X0
	INCQ CX

more:
	CMPQ CX, R11
	JLT edge
	VMOVUPS X0, (DI)(DX*1)
	INCQ AX
	JMP node

done:
	RET

// SWEEP sets b to v + inv*(weight*(right+left+below+above)), of the pixels at AX; all of Y15 is the weight.
#define SWEEP(v, a, b, c, d) \
	VMOVUPS (SI)(AX*4), v        \
	VMOVUPS 4(SI)(AX*4), a       \
	VMOVUPS -4(SI)(AX*4), b      \
	VMOVUPS (R9)(AX*4), c        \
	VMOVUPS (R8)(AX*4), d        \
	VSUBPS v, a, a               \
	VSUBPS v, b, b               \
	VSUBPS v, c, c               \
	VSUBPS v, d, d               \
	VADDPS b, a, b               \
	VADDPS c, b, b               \
	VADDPS d, b, b               \
	VMULPS Y15, b, b             \
	VMULPS (R10)(AX*4), b, b     \
	VADDPS v, b, b               \
	VMOVUPS b, (DI)(AX*4)

// func sweepRowAVX2(dst, up, x, down, inv *float32, n int, weight float32)
TEXT ·sweepRowAVX2(SB), NOSPLIT, $0-52
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ down+24(FP), R9
	MOVQ inv+32(FP), R10
	MOVQ n+40(FP), CX
	VBROADCASTSS weight+48(FP), Y15
	XORQ AX, AX

loop:
	SWEEP(Y0, Y1, Y2, Y3, Y4)
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop
	VZEROUPPER
	RET

// NEXTSLOT sets b to the slot after a.
#define NEXTSLOT(a, b, found) \
	LEAQ 1(a), b             \
	CMPQ b, $const_rowSlots  \
	JLT found                \
	XORQ b, b                \
found:

// PAIRROWS finds the rows of a pair: DI is the row above, which becomes the first one; SI and BX are the two, of which
// the first becomes the second; DX is the row below. R10 and R14 are the factors of the flows of the two, and at R15 is
// the weight of the sweep.
#define PAIRROWS \
pair:                                       \
	NEXTSLOT(R11, SI, first)            \
	NEXTSLOT(SI, BX, second)            \
	NEXTSLOT(BX, DX, below)             \
	LEAQ 1(R12), R14                    \
	CMPQ R14, $const_invSlots           \
	JLT found                           \
	XORQ R14, R14                       \
found:                                      \
	IMUL3Q $(4*const_ringRow), R11, DI  \
	IMUL3Q $(4*const_ringRow), SI, SI   \
	IMUL3Q $(4*const_ringRow), BX, BX   \
	IMUL3Q $(4*const_ringRow), DX, DX   \
	IMUL3Q $(4*const_ringRow), R12, R10 \
	IMUL3Q $(4*const_ringRow), R14, R14 \
	ADDQ R8, DI                         \
	ADDQ R8, SI                         \
	ADDQ R8, BX                         \
	ADDQ R8, DX                         \
	ADDQ R9, R10                        \
	ADDQ R9, R14

// PAIREND copies the first and the last pixel of both rows beyond their ends, and goes on with the next pair, if there
// is one.
#define PAIREND \
	MOVL (DI), AX             \
	MOVL AX, -4(DI)           \
	MOVL -4(DI)(CX*4), AX     \
	MOVL AX, (DI)(CX*4)       \
	MOVL (SI), AX             \
	MOVL AX, -4(SI)           \
	MOVL -4(SI)(CX*4), AX     \
	MOVL AX, (SI)(CX*4)       \
	SUBQ $2, R11              \
	JGE slotted               \
	ADDQ $const_rowSlots, R11 \
slotted:                          \
	DECQ R12                  \
	JGE equated               \
	ADDQ $const_invSlots, R12 \
equated:                          \
	ADDQ $4, R15              \
	DECQ R13                  \
	JNZ pair

// func sweepPairsAVX512(x *[rowSlots][ringRow]float32, inv *[invSlots][ringRow]float32, slot, equations, sweeps, n int,
//	weights *float32)
TEXT ·sweepPairsAVX512(SB), NOSPLIT, $0-56
	MOVQ x+0(FP), R8
	ADDQ $(4*const_ringPad), R8
	MOVQ inv+8(FP), R9
	MOVQ slot+16(FP), R11
	MOVQ equations+24(FP), R12
	MOVQ sweeps+32(FP), R13
	MOVQ n+40(FP), CX
	MOVQ weights+48(FP), R15
	PAIRROWS
	VBROADCASTSS (R15), Z13
	XORQ AX, AX
	VMOVUPS (SI), Z0
	VMOVUPS (BX), Z1
	VSUBPS -4(SI), Z0, Z2
	VSUBPS -4(BX), Z1, Z3
	VALIGND $1, Z2, Z2, Z2 // the difference on the left is where the one of the last vector would be
	VALIGND $1, Z3, Z3, Z3

	// The pixels on the right come of whole vectors: loads that cross lines of the cache take twice as long.
loop:
	VMOVUPS 64(SI)(AX*4), Z4
	VMOVUPS 64(BX)(AX*4), Z5
	VALIGND $1, Z0, Z4, Z6
	VALIGND $1, Z1, Z5, Z7
	VSUBPS Z0, Z6, Z6
	VSUBPS Z1, Z7, Z7
	VALIGND $15, Z2, Z6, Z8
	VALIGND $15, Z3, Z7, Z9
	VMOVAPS Z6, Z2
	VMOVAPS Z7, Z3
	VSUBPS (DI)(AX*4), Z0, Z10
	VSUBPS (DX)(AX*4), Z1, Z11
	VSUBPS Z0, Z1, Z12
	VSUBPS Z8, Z6, Z6
	VSUBPS Z9, Z7, Z7
	VADDPS Z12, Z6, Z6
	VSUBPS Z11, Z7, Z7
	VSUBPS Z10, Z6, Z6
	VSUBPS Z12, Z7, Z7
	VMULPS Z13, Z6, Z6
	VMULPS Z13, Z7, Z7
	VMULPS (R10)(AX*4), Z6, Z6
	VMULPS (R14)(AX*4), Z7, Z7
	VADDPS Z6, Z0, Z6
	VADDPS Z7, Z1, Z7
	VMOVUPS Z6, (DI)(AX*4)
	VMOVUPS Z7, (SI)(AX*4)
	VMOVAPS Z4, Z0
	VMOVAPS Z5, Z1
	ADDQ $16, AX
	CMPQ AX, CX
	JL loop
	PAIREND
	VZEROUPPER
	RET

// func sweepPairsAVX2(x *[rowSlots][ringRow]float32, inv *[invSlots][ringRow]float32, slot, equations, sweeps, n int,
//	weights *float32)
// A product by one is exact, so a multiply-add with it rounds as an addition does. Half of the additions are such: Zen
// adds in two of its pipes, and multiplies in two others.
TEXT ·sweepPairsAVX2(SB), NOSPLIT, $0-56
	MOVQ x+0(FP), R8
	ADDQ $(4*const_ringPad), R8
	MOVQ inv+8(FP), R9
	MOVQ slot+16(FP), R11
	MOVQ equations+24(FP), R12
	MOVQ sweeps+32(FP), R13
	MOVQ n+40(FP), CX
	MOVQ weights+48(FP), R15
	MOVL $0x3f800000, AX
	VMOVD AX, X15
	VBROADCASTSS X15, Y15
	PAIRROWS
	VBROADCASTSS (R15), Y13
	XORQ AX, AX
	VMOVUPS -4(SI), Y14 // pixels on the left, which the second row takes the place of

loop:
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS (BX)(AX*4), Y1
	VMOVUPS (DI)(AX*4), Y9
	VMOVUPS (DX)(AX*4), Y10
	VSUBPS 4(SI)(AX*4), Y0, Y2
	VSUBPS 4(BX)(AX*4), Y1, Y3
	VSUBPS -4(BX)(AX*4), Y1, Y5
	VFMSUB231PS Y0, Y15, Y14
	VSUBPS Y0, Y1, Y8
	VFMSUB231PS Y0, Y15, Y9
	VFMSUB213PS Y1, Y15, Y10
	VFMADD213PS Y14, Y15, Y2
	VFMADD213PS Y5, Y15, Y3
	VMOVUPS 28(SI)(AX*4), Y14
	VFMSUB231PS Y8, Y15, Y2
	VFMSUB231PS Y10, Y15, Y3
	VSUBPS Y9, Y2, Y2
	VSUBPS Y8, Y3, Y3
	VMULPS Y13, Y2, Y2
	VMULPS Y13, Y3, Y3
	VMULPS (R10)(AX*4), Y2, Y2
	VMULPS (R14)(AX*4), Y3, Y3
	VADDPS Y0, Y2, Y2
	VADDPS Y1, Y3, Y3
	VMOVUPS Y2, (DI)(AX*4)
	VMOVUPS Y3, (SI)(AX*4)
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop
	PAIREND
	VZEROUPPER
	RET

// SWEEPWALLS is SWEEP of what is open.
#define SWEEPWALLS \
	VPMOVZXBD (R11)(AX*1), Y1               \
	VMOVUPS (SI)(AX*4), Y0                  \
	FLOW(4(SI)(AX*4), Y0, Y1, $31, Y6, Y2)  \
	FLOW(-4(SI)(AX*4), Y0, Y1, $30, Y7, Y3) \
	FLOW((R9)(AX*4), Y0, Y1, $29, Y8, Y4)   \
	FLOW((R8)(AX*4), Y0, Y1, $28, Y9, Y5)   \
	VADDPS Y3, Y2, Y2                       \
	VADDPS Y4, Y2, Y2                       \
	VADDPS Y5, Y2, Y2                       \
	VMULPS (R10)(AX*4), Y2, Y2              \
	VADDPS Y0, Y2, Y2                       \
	VMOVUPS Y2, (DI)(AX*4)

// func sweepWallsAVX2(dst, up, x, down, inv *float32, open *uint8, n int)
TEXT ·sweepWallsAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ down+24(FP), R9
	MOVQ inv+32(FP), R10
	MOVQ open+40(FP), R11
	MOVQ n+48(FP), CX
	XORQ AX, AX

loop:
	SWEEPWALLS
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop
	VZEROUPPER
	RET

// func apartByAVX2(sums, most *[apartLanes]float32, a, b *float32, n int)
TEXT ·apartByAVX2(SB), NOSPLIT, $0-40
	MOVQ sums+0(FP), DI
	MOVQ most+8(FP), DX
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), R8
	MOVQ n+32(FP), CX
	XORQ AX, AX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS (DX), Y2
	VMOVUPS 32(DX), Y3
	VPCMPEQD Y4, Y4, Y4
	VPSRLD $1, Y4, Y4

loop:
	VMOVUPS (SI)(AX*4), Y5
	VMOVUPS 32(SI)(AX*4), Y6
	VSUBPS (R8)(AX*4), Y5, Y5
	VSUBPS 32(R8)(AX*4), Y6, Y6
	VANDPS Y4, Y5, Y5
	VANDPS Y4, Y6, Y6
	VADDPS Y5, Y0, Y0
	VADDPS Y6, Y1, Y1
	VMAXPS Y5, Y2, Y2
	VMAXPS Y6, Y3, Y3
	ADDQ $16, AX
	CMPQ AX, CX
	JL loop
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, (DX)
	VMOVUPS Y3, 32(DX)
	VZEROUPPER
	RET

// func prefetch(a *float32, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ a+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ -4(SI)(CX*4), CX

loop:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, CX
	JLE loop
	PREFETCHT0 (CX)
	RET
