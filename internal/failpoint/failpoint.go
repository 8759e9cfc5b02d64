// Package failpoint lets a test inject a fault at a chosen step of a program.
//
// A step of a program is marked by a call of [At]. In the released programs At does nothing, and
// the compiler removes it. Programs built with the tag drill read one environment variable:
//
//	KEYPOOL_FAILPOINTS  step=action[:n],...  do the action at this step; n counts the passes of the step
//
// The name of a step is <activity>:<what has just happened>, such as ship:reserved. The actions are:
//
//	kill   the process sends itself SIGKILL, from the n-th pass on
//	stop   the process sends itself SIGSTOP at the n-th pass only, and continues after SIGCONT
//	skip   At returns true at every pass; the program then omits an operation, if the step has one
package failpoint
