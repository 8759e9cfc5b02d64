package keysource

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keypool/kgs/kgstest"
)

// TestFrozenSnowflakeHolderRepeatsNoNumberOfHeir freezes the holder of a machine id until its promise has ended and
// another process, the heir, has acquired this machine id. When the holder continues, its clock shows the times for
// which the heir has made numbers. The end of its promise must prevent the holder from making these numbers again.
func TestFrozenSnowflakeHolderRepeatsNoNumberOfHeir(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock, heirs := clockAt(100_000), clockAt(100_000)
		holder, heir := newTestSnowflake(l, "holder", 7, clock.now), newTestSnowflake(l, "heir", 7, heirs.now)
		mustKeep(t, holder)
		nextCode(t, holder)
		heirs.step(promiseAhead) // the holder is frozen during this time
		mustKeep(t, heir)
		made := []string{nextCode(t, heir), nextCode(t, heir)}
		clock.step(promiseAhead)
		twice := 0
		for range made {
			if k, err := holder.Next(t.Context(), "", 0); err == nil && slices.Contains(made, k.Code) {
				twice++
			}
		}
		if twice > 0 {
			t.Errorf("%d numbers were made twice", twice)
		}
		if err := holder.keep(t.Context()); !errors.Is(err, errNoMachine) {
			t.Errorf("keep of the frozen holder: %v, want errNoMachine", err)
		}
	})
}

// TestNextHolderOfMachineIDRepeatsNoNumberIfClockIsSetBack lets a process, the heir, acquire an id. Then it sets the
// clock of the heir back to a time at which the previous holder had the id. The heir must not make the numbers of the
// previous holder.
func TestNextHolderOfMachineIDRepeatsNoNumberIfClockIsSetBack(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		holder, heir := newTestSnowflake(l, "holder", 7, clock.now), newTestSnowflake(l, "heir", 7, clock.now)
		mustKeep(t, holder)
		made := nextCode(t, holder)
		clock.step(promiseAhead)
		mustKeep(t, heir)
		clock.step(-promiseAhead)
		k, err := heir.Next(t.Context(), "", 0)
		if err == nil && k.Code == made {
			t.Errorf("the heir made the code %s, which the previous holder had made", made)
		}
	})
}

// TestSnowflakeNumbersAreUniqueDespiteFaults lets four processes share two machine ids. The processes
// freeze, crash and restart, and their clocks move forward and back. No number may be made twice.
func TestSnowflakeNumbersAreUniqueDespiteFaults(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		drawn := 0
		rapid.Check(t, func(rt *rapid.T) {
			l.Exec(t, `UPDATE kgs_machines SET until_ms = CASE WHEN id < 2 THEN 0 ELSE 1000000000 END, holder = ''`)
			made := make(map[int64]bool)
			var processes [4]*Snowflake
			var clocks [4]*testClock
			starts := 0
			start := func(i int) {
				starts++
				processes[i] = newTestSnowflake(l, fmt.Sprint("process ", starts), i%3-1, clocks[i].now)
			}
			for i := range processes {
				clocks[i] = clockAt(100_000)
				start(i)
			}
			who := rapid.IntRange(0, len(processes)-1)
			rt.Repeat(map[string]func(*rapid.T){
				"keep": func(rt *rapid.T) {
					_ = processes[who.Draw(rt, "process")].keep(t.Context()) // keep fails if no id is free or the clock is behind
				},
				"draw": func(rt *rapid.T) {
					n, wait, err := processes[who.Draw(rt, "process")].take()
					if err != nil || wait > 0 {
						return
					}
					if made[n] {
						rt.Fatalf("number %x was made twice", n)
					}
					made[n] = true
					drawn++
				},
				"clock": func(rt *rapid.T) {
					clocks[who.Draw(rt, "process")].step(time.Duration(rapid.IntRange(-4000, 4000).Draw(rt, "ms")) * time.Millisecond)
				},
				"kill": func(rt *rapid.T) { start(who.Draw(rt, "process")) },
				"stop": func(rt *rapid.T) {
					i := who.Draw(rt, "process")
					processes[i].giveBack(t.Context())
					if _, wait, err := processes[i].take(); err == nil && wait <= 0 {
						rt.Fatal("the process made a number after it gave the machine id back")
					}
					start(i)
				},
			})
		})
		if drawn == 0 {
			t.Error("no process ever made a number")
		}
	})
}
