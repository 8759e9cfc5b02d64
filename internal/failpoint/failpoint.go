// Package failpoint lets a test inject a fault at a chosen step of a program.
//
// In the released programs [At] is constant, so the compiler removes it. Programs built with
// the tag drill read one environment variable:
//
//	KEYPOOL_FAILPOINTS  step=action[:n],...  do the action at this step, from its n-th pass on
//
// The name of a step is <component>:<last operation>. The actions are:
//
//	kill   the process sends itself SIGKILL
//	stop   the process sends itself SIGSTOP at the n-th pass only, and continues after SIGCONT
//	skip   the program omits the operation after the step, at every pass
package failpoint
