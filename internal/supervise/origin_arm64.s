//go:build linux

#include "textflag.h"

DATA ·noteOriginPC(SB)/8, $noteOrigin<>(SB)
GLOBL ·noteOriginPC(SB), NOPTR|RODATA, $8

// noteOrigin is a signal handler in the C calling convention (sigaction(2)).
// R0 is the signal, R1 the siginfo_t, R2 the context. The stack, and all but
// the signal, stay as they are for the runtime's handler.
TEXT noteOrigin<>(SB), NOSPLIT|NOFRAME, $0
	MOVD	$·sentByProcess(SB), R3
	MOVW	8(R1), R4 // si_code
	CMPW	$0, R4
	BLE	note
	MOVD	$·sentByKernel(SB), R3
note:
	MOVWU	R0, R4
	ADD	R4<<2, R3
	MOVWU	·sequence(SB), R4
	ADDW	$1, R4
	MOVW	R4, ·sequence(SB)
	MOVW	R4, (R3)
	MOVD	$10, R0 // SIGUSR1
	MOVD	·nextHandler(SB), R3
	JMP	(R3)
