// Package failpoint lets the drills break a program at a chosen step.
//
// In the shipped programs [At] is constant, so the compiler removes it. Programs that are
// built with the tag drill read one environment variable:
//
//	KEYPOOL_FAILPOINTS  step=action[:n],...  the action at a step, from its n-th time on
//
// The name of a step is <part>:<what was just done>. The actions:
//
//	kill   the process sends itself SIGKILL
//	stop   the process sends itself SIGSTOP, once, and goes on after a SIGCONT
//	skip   the program omits what follows the step, each time
package failpoint
