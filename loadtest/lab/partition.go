package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
)

// Partition makes the kernel drop all TCP packets from and to the given address ("host:port"), until the caller calls
// heal or the run ends. The host must be an address of this machine that only the programs under test use, such as
// 127.0.0.2. This process must run as root.
func Partition(r T, address string) (heal func()) {
	host, port, err := net.SplitHostPort(address)
	must(r, err, "drop packets")
	rules := [][]string{{"-d", host, "--dport", port}, {"-s", host, "--sport", port}}
	var once sync.Once
	heal = func() {
		once.Do(func() {
			for _, rule := range rules {
				if err := filter("-D", rule); err != nil {
					r.Errorf("stop dropping packets: %v", err)
				}
			}
		})
	}
	for _, rule := range rules {
		must(r, filter("-I", rule), "drop packets; run the experiment as root, with iptables installed")
	}
	r.Cleanup(heal)
	return heal
}

// filter adds a rule to the packet filter, or deletes it.
func filter(action string, rule []string) error {
	args := slices.Concat([]string{"-w", "5", action, "INPUT", "-i", "lo", "-p", "tcp"}, rule, []string{"-j", "DROP"})
	out, err := exec.CommandContext(context.Background(), "iptables", args...).CombinedOutput() // an interrupted run must delete its rules too
	if err != nil {
		return errors.Join(err, fmt.Errorf("iptables: %s", bytes.TrimSpace(out)))
	}
	return nil
}
