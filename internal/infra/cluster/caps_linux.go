package cluster

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Capability numbers of capabilities(7). The first one suffices to traverse closed directories; containers often
// withhold it and leave the second.
const (
	capDACOverride   = 1
	capDACReadSearch = 2
)

var capChoices = [][]uintptr{nil, {capDACReadSearch}, {capDACOverride}}

func setCaps(attr *syscall.SysProcAttr, caps []uintptr) { attr.AmbientCaps = caps }

// maybeServer rules out that pid is another program, before it is sent a signal.
func maybeServer(pid int) bool {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.TrimSpace(string(name)) == "postgres"
}
