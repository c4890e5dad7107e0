//go:build linux

#include "textflag.h"

// func clone(flags, stack, code uintptr, c *child) int
TEXT ·clone(SB), NOSPLIT|NOFRAME, $0-20
	MOVW	flags+0(FP), R0
	MOVW	stack+4(FP), R1
	MOVW	code+8(FP), R8
	MOVW	c+12(FP), R6
	MOVW	$0, R2
	MOVW	$0, R3
	MOVW	$0, R4
	MOVW	$120, R7 // SYS_CLONE
	SWI	$0
	CMP	$0, R0
	BEQ	child
	MOVW	R0, ret+16(FP)
	RET
child:
	MOVW	R6, 4(R13)
	BL	(R8)
	MOVW	$0, R0
	MOVW	R0, (R0)
