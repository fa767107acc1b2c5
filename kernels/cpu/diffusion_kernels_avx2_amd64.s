//go:build !purego

// Kernels of diffusion for AVX2. What they compute is said at their twins in diffusion_kernels.go, and how they may be called in
// diffusion_kernels_amd64.go.

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
