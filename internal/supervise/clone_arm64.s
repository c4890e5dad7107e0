//go:build linux

#include "textflag.h"

// func clone(flags, stack, code uintptr, c *child) int
// The code has Go's own calling convention: g is still the goroutine.
TEXT ·clone(SB), NOSPLIT|NOFRAME, $0-40
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	code+16(FP), R9
	MOVD	c+24(FP), R10
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$220, R8 // SYS_CLONE
	SVC
	CBZ	R0, child
	MOVD	R0, ret+32(FP)
	RET
child:
	MOVD	R10, R0
	BL	(R9)
	BRK
