//go:build linux

#include "textflag.h"

DATA ·noteOriginPC(SB)/4, $noteOrigin<>(SB)
GLOBL ·noteOriginPC(SB), NOPTR|RODATA, $4

// noteOrigin is a signal handler in the C calling convention (sigaction(2)).
// R0 is the signal, R1 the siginfo_t, R2 the context. The stack, and all but
// the signal, stay as they are for the runtime's handler.
TEXT noteOrigin<>(SB), NOSPLIT|NOFRAME, $0
	MOVW	$·sentByProcess(SB), R3
	MOVW	8(R1), R12 // si_code
	CMP	$0, R12
	MOVW.GT	$·sentByKernel(SB), R3
	ADD	R0<<2, R3
	MOVW	·sequence(SB), R12
	ADD	$1, R12
	MOVW	R12, ·sequence(SB)
	MOVW	R12, (R3)
	MOVW	$10, R0 // SIGUSR1
	MOVW	·nextHandler(SB), R3
	JMP	(R3)
