// Package failpoint lets the drills break the programs at a chosen step, and switch
// one protection off to see that its drill then fails.
//
// In the programs as they are shipped all of it is constant and empty, so the compiler
// leaves nothing of it behind. With the build tag drill the
// programs do as two variables of the environment say:
//
//	KEYPOOL_FAILPOINTS  step=action[:n],...  what happens at a step, from its n-th time on
//	KEYPOOL_WITHOUT     protection,...       what is switched off
//
// A step is named <part>:<what was just done>, a protection by one word. The actions:
//
//	kill   the process kills itself with SIGKILL
//	stop   the process stops itself with SIGSTOP, once, until somebody sends SIGCONT
//	skip   what follows the step is left out, each time
package failpoint
