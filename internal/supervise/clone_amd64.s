//go:build linux

#include "textflag.h"

// func clone(flags, stack, code uintptr, c *child) int
// The code has Go's own calling convention: R14 is still the goroutine.
TEXT ·clone(SB), NOSPLIT, $0-40
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	code+16(FP), R12
	MOVQ	c+24(FP), R13
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$56, AX // SYS_CLONE
	SYSCALL
	CMPQ	AX, $0
	JEQ	child
	MOVQ	AX, ret+32(FP)
	RET
child:
	MOVQ	R13, AX
	XORPS	X15, X15
	CALL	R12
	INT	$3
