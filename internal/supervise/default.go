package supervise

// DefaultActions lets signals end this process as they end any that does not
// catch them, until [Command.Start] catches them for the command. The Go
// runtime would let some pass, among them the SIGALRM of a caller's alarm(2), and
// print the stacks of all goroutines for others. What is ignored stays so.
//
// The init of a PID namespace, which the kernel spares from default actions
// (pid_namespaces(7)), exits with 128 and the signal's number for HUP, INT, QUIT
// and TERM.
//
// Elsewhere than on Linux it leaves the runtime's ways.
func DefaultActions() { defaultActions() }
