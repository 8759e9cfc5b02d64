// Package failpoint lets a test inject a fault at a chosen step of a program.
//
// A call of [At] marks a step of a program, and a pass is one execution of this call. In the
// released programs At does nothing, and the compiler removes it. Programs built with the tag drill
// read one environment variable:
//
//	KEYPOOL_FAILPOINTS  step=action[:n],...  do the action at the n-th pass of this step; n is 1 by default
//
// The name of a step is <activity>:<what has just happened>, such as ship:reserved. The actions are:
//
//	kill   the process sends itself SIGKILL at the n-th pass
//	stop   the process sends itself SIGSTOP at the n-th pass only, and continues after SIGCONT
//	skip   At returns true at every pass, whatever n is; a caller that uses the result omits the operation that follows
package failpoint
