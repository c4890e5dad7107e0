//go:build linux

#include "textflag.h"

DATA ·noteOriginPC(SB)/8, $noteOrigin<>(SB)
GLOBL ·noteOriginPC(SB), NOPTR|RODATA, $8

// noteOrigin is a signal handler in the C calling convention (sigaction(2)).
// DI is the signal, SI the siginfo_t, DX the context. The stack, and all but
// the signal, stay as they are for the runtime's handler.
TEXT noteOrigin<>(SB), NOSPLIT|NOFRAME, $0
	LEAQ	·sentByProcess(SB), AX
	CMPL	8(SI), $0 // si_code
	JLE	note
	LEAQ	·sentByKernel(SB), AX
note:
	MOVL	DI, CX
	LEAQ	(AX)(CX*4), AX
	MOVL	·sequence(SB), CX
	ADDL	$1, CX
	MOVL	CX, ·sequence(SB)
	MOVL	CX, (AX)
	MOVL	$10, DI // SIGUSR1
	MOVQ	·nextHandler(SB), AX
	JMP	AX
