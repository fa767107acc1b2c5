//go:build !purego

// Kernels of black box multigrid for AVX2. What they compute is said at their twins in diffusion_box.go, and how they
// may be called in diffusion_box_amd64.go.

#include "textflag.h"

// Masks of every second lane: the first ones, and the others.
DATA lanes<>+0(SB)/8, $0x00000000ffffffff
DATA lanes<>+8(SB)/8, $0x00000000ffffffff
DATA lanes<>+16(SB)/8, $0x00000000ffffffff
DATA lanes<>+24(SB)/8, $0x00000000ffffffff
DATA lanes<>+32(SB)/8, $0xffffffff00000000
DATA lanes<>+40(SB)/8, $0xffffffff00000000
DATA lanes<>+48(SB)/8, $0xffffffff00000000
DATA lanes<>+56(SB)/8, $0xffffffff00000000
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// LARGEST sets R to the largest lane of Y15, which are integers; Y14 is spoiled. Absolute values of floats are ordered
// as their bits are, and what is no number comes last.
#define LARGEST(R) \
	VEXTRACTI128 $1, Y15, X14  \
	VPMAXSD X14, X15, X15      \
	VPSHUFD $0x4e, X15, X14    \
	VPMAXSD X14, X15, X15      \
	VPSHUFD $0xb1, X15, X14    \
	VPMAXSD X14, X15, X15      \
	VMOVD X15, R

// func stepAVX2(row, was *float32, n int, step float32) (most uint32)
TEXT ·stepAVX2(SB), NOSPLIT, $0-36
	MOVQ row+0(FP), DI
	MOVQ was+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS step+24(FP), Y3
	VPCMPEQD Y4, Y4, Y4
	VPSRLD $1, Y4, Y4
	VPXOR Y15, Y15, Y15
	XORQ AX, AX

loop:
	CMPQ AX, CX
	JGE done
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS (DI)(AX*4), Y1
	VSUBPS Y0, Y1, Y1
	VMULPS Y3, Y1, Y1
	VADDPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)(AX*4)
	VPAND Y4, Y1, Y1
	VPMAXSD Y1, Y15, Y15
	ADDQ $8, AX
	JMP loop

done:
	LARGEST(AX)
	MOVL AX, most+32(FP)
	VZEROUPPER
	RET

// func relaxFinestAVX2(x, up, down, inv *float32, n, odd int)
TEXT ·relaxFinestAVX2(SB), NOSPLIT, $0-48
	MOVQ x+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ down+16(FP), R9
	MOVQ inv+24(FP), R10
	MOVQ n+32(FP), CX
	MOVQ odd+40(FP), DX
	SHLQ $5, DX
	LEAQ lanes<>(SB), BX
	VMOVDQU (BX)(DX*1), Y7
	XORQ AX, AX
	VMOVUPS -4(DI), Y1

loop:
	VMOVUPS (DI)(AX*4), Y0
	VMOVUPS 4(DI)(AX*4), Y2
	VMOVUPS (R8)(AX*4), Y3
	VMOVUPS (R9)(AX*4), Y4
	VSUBPS Y0, Y1, Y1
	VSUBPS Y0, Y2, Y2
	VSUBPS Y0, Y3, Y3
	VSUBPS Y0, Y4, Y4
	VADDPS Y2, Y1, Y1
	VADDPS Y4, Y3, Y3
	VADDPS Y3, Y1, Y1
	VMULPS (R10)(AX*4), Y1, Y1
	VADDPS Y1, Y0, Y1
	VBLENDVPS Y7, Y1, Y0, Y0
	ADDQ $8, AX
	CMPQ AX, CX
	JGE done
	// Behind the store this load would wait for it. What is relaxed now is beside no pixel that is relaxed then.
	VMOVUPS -4(DI)(AX*4), Y1
	VMOVUPS Y0, -32(DI)(AX*4)
	JMP loop

done:
	VMOVUPS Y0, -32(DI)(AX*4)
	VZEROUPPER
	RET

// func residualFinestAVX2(dst, x, up, down, inv *float32, n int) (most uint32)
TEXT ·residualFinestAVX2(SB), NOSPLIT, $0-52
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ up+16(FP), R8
	MOVQ down+24(FP), R9
	MOVQ inv+32(FP), R10
	MOVQ n+40(FP), CX
	VPXOR Y5, Y5, Y5
	VPCMPEQD Y4, Y4, Y4
	VPSRLD $1, Y4, Y4
	VPXOR Y15, Y15, Y15
	XORQ AX, AX

loop:
	CMPQ AX, CX
	JGE done
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS (R8)(AX*4), Y1
	VMOVUPS (R9)(AX*4), Y2
	VSUBPS Y0, Y1, Y1
	VSUBPS Y0, Y2, Y2
	VADDPS Y2, Y1, Y1
	VMOVUPS -4(SI)(AX*4), Y2
	VSUBPS Y0, Y2, Y2
	VADDPS Y2, Y1, Y1
	VMOVUPS 4(SI)(AX*4), Y2
	VSUBPS Y0, Y2, Y2
	VADDPS Y2, Y1, Y1
	VCMPPS $0, (R10)(AX*4), Y5, Y2
	VANDNPS Y1, Y2, Y1
	VMOVUPS Y1, (DI)(AX*4)
	VPAND Y4, Y1, Y1
	VPMAXSD Y1, Y15, Y15
	ADDQ $8, AX
	JMP loop

done:
	LARGEST(AX)
	MOVL AX, most+48(FP)
	VZEROUPPER
	RET

// func relaxCoarseAVX2(x, b, inv, e, s, se, sw *float32, stride, n, odd int)
TEXT ·relaxCoarseAVX2(SB), NOSPLIT, $0-80
	MOVQ x+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ inv+16(FP), R8
	MOVQ e+24(FP), R9
	MOVQ s+32(FP), R10
	MOVQ se+40(FP), R11
	MOVQ sw+48(FP), R12
	MOVQ stride+56(FP), DX
	SHLQ $2, DX
	MOVQ n+64(FP), CX
	MOVQ odd+72(FP), AX
	SHLQ $5, AX
	LEAQ lanes<>(SB), BX
	VMOVDQU (BX)(AX*1), Y7
	VMOVUPS -4(DI), Y8

loop:
	VMOVUPS (R9), Y0
	VMULPS 4(DI), Y0, Y0
	VMULPS -4(R9), Y8, Y1
	VADDPS Y1, Y0, Y0
	VADDPS (SI), Y0, Y0       // b + e
	MOVQ DI, BX
	SUBQ DX, BX               // of x above
	MOVQ R10, R13
	SUBQ DX, R13
	VMOVUPS (R10), Y1
	VMULPS (DI)(DX*1), Y1, Y1
	VMOVUPS (R13), Y2
	VMULPS (BX), Y2, Y2
	VADDPS Y2, Y1, Y1
	VADDPS Y1, Y0, Y0         // + s
	MOVQ R11, R13
	SUBQ DX, R13
	VMOVUPS (R11), Y1
	VMULPS 4(DI)(DX*1), Y1, Y1
	VMOVUPS -4(R13), Y2
	VMULPS -4(BX), Y2, Y2
	VADDPS Y2, Y1, Y1
	VADDPS Y1, Y0, Y0         // + se
	MOVQ R12, R13
	SUBQ DX, R13
	VMOVUPS (R12), Y1
	VMULPS -4(DI)(DX*1), Y1, Y1
	VMOVUPS 4(R13), Y2
	VMULPS 4(BX), Y2, Y2
	VADDPS Y2, Y1, Y1
	VADDPS Y1, Y0, Y0         // + sw
	VMULPS (R8), Y0, Y0
	VMOVUPS (DI), Y1
	VBLENDVPS Y7, Y0, Y1, Y1
	SUBQ $8, CX
	JLE done
	VMOVUPS 28(DI), Y8        // before the store, as above
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $32, R8
	ADDQ $32, R9
	ADDQ $32, R10
	ADDQ $32, R11
	ADDQ $32, R12
	JMP loop

done:
	VMOVUPS Y1, (DI)
	VZEROUPPER
	RET

// PAIR adds to Y1 the differences of what is at p and q to the point, Y0, each by what is at a and c.
#define PAIR(a, p, c, q) \
	VMOVUPS p, Y2        \
	VSUBPS Y0, Y2, Y2    \
	VMULPS a, Y2, Y2     \
	VMOVUPS q, Y3        \
	VSUBPS Y0, Y3, Y3    \
	VMULPS c, Y3, Y3     \
	VADDPS Y3, Y2, Y2    \
	VADDPS Y2, Y1, Y1

// func residualCoarseAVX2(dst, x, b, inv, sink, e, s, se, sw *float32, stride, n int)
TEXT ·residualCoarseAVX2(SB), NOSPLIT, $0-88
	MOVQ x+8(FP), DI
	MOVQ b+16(FP), SI
	MOVQ e+40(FP), R9
	MOVQ s+48(FP), R10
	MOVQ se+56(FP), R11
	MOVQ sw+64(FP), R12
	MOVQ stride+72(FP), DX
	SHLQ $2, DX
	MOVQ n+80(FP), CX
	SHLQ $2, CX
	VPXOR Y5, Y5, Y5
	XORQ AX, AX

loop:
	CMPQ AX, CX
	JGE done
	VMOVUPS (DI)(AX*1), Y0
	MOVQ sink+32(FP), BX
	VMULPS (BX)(AX*1), Y0, Y2
	VMOVUPS (SI)(AX*1), Y1
	VSUBPS Y2, Y1, Y1
	LEAQ (DI)(AX*1), BX
	LEAQ (BX)(DX*1), R8       // of x below
	SUBQ DX, BX               // of x above
	PAIR((R9)(AX*1), 4(DI)(AX*1), -4(R9)(AX*1), -4(DI)(AX*1))
	LEAQ (R10)(AX*1), R13
	SUBQ DX, R13
	PAIR((R10)(AX*1), (R8), (R13), (BX))
	LEAQ (R11)(AX*1), R13
	SUBQ DX, R13
	PAIR((R11)(AX*1), 4(R8), -4(R13), -4(BX))
	LEAQ (R12)(AX*1), R13
	SUBQ DX, R13
	PAIR((R12)(AX*1), -4(R8), 4(R13), 4(BX))
	MOVQ inv+24(FP), BX
	VCMPPS $0, (BX)(AX*1), Y5, Y2
	VANDNPS Y1, Y2, Y1
	MOVQ dst+0(FP), BX
	VMOVUPS Y1, (BX)(AX*1)
	ADDQ $32, AX
	JMP loop

done:
	VZEROUPPER
	RET
