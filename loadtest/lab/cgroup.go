package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cgroup is a control group that limits the memory of the programs in it.
type Cgroup struct {
	dir    string
	events string // the file that counts the kills
	r      T
}

// cgroupRoot is where control groups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// MemoryCgroup creates a control group whose programs may use limit bytes of memory and no swap. This process must run
// as root. The group is removed when the run ends.
func MemoryCgroup(r T, limit int) *Cgroup {
	g := &Cgroup{r: r}
	parent, limits := cgroupRoot, []string{"memory.max", "memory.swap.max"}
	g.events = "memory.events"
	if _, err := os.Stat(filepath.Join(cgroupRoot, "memory")); err == nil { // the control groups are of version 1
		parent, limits = filepath.Join(cgroupRoot, "memory"), []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
		g.events = "memory.oom_control"
	}
	var err error
	g.dir, err = os.MkdirTemp(parent, "keypool-")
	must(r, err, "create a control group; run the experiment as root")
	r.Cleanup(func() {
		if err := g.remove(); err != nil {
			r.Errorf("remove a control group: %v", err)
		}
	})
	must(r, g.write(limits[0], limit), "limit the memory of a control group")
	swap := limit
	if g.events == "memory.events" {
		swap = 0 // in version 2, the limit of the swap does not include the memory
	}
	if err := g.write(limits[1], swap); err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without swap has no such file
		r.Fatalf("limit the swap of a control group: %v", err)
	}
	return g
}

func (g *Cgroup) write(file string, value int) error {
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(value))
	return errors.Join(err, f.Close())
}

// Run returns a command for [Program].Prefix that runs the program in the group.
func (g *Cgroup) Run() []string {
	return []string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// Kills returns how many processes of the group the kernel has killed because the group had no memory left.
func (g *Cgroup) Kills() int {
	text, err := os.ReadFile(filepath.Join(g.dir, g.events))
	must(g.r, err, "read the events of a control group")
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "oom_kill "); ok {
			kills, err := strconv.Atoi(strings.TrimSpace(number))
			must(g.r, err, "read the events of a control group")
			return kills
		}
	}
	g.r.Fatalf("the kernel does not count the processes that it kills: %s", text)
	return 0
}

// remove removes the group. It tries repeatedly, because the group is busy for a moment after the end of its last
// process.
func (g *Cgroup) remove() error {
	return Until(context.Background(), pollEvery, 10*time.Second, func(context.Context) (bool, error) {
		err := syscall.Rmdir(g.dir)
		if err != nil {
			err = fmt.Errorf("%s: %w", g.dir, err)
		}
		return !errors.Is(err, syscall.EBUSY), err
	})
}
