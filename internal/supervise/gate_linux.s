// This file lets gate_linux.go declare functions without a body.
