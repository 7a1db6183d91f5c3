package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much the heap may grow between two collections, in percent of what is live. What is live is some 20
// MB of the 110 that a process has in memory: as many again are worth a tenth of its CPU.
const gcPercent = 200

// TuneGC gives back what the beginning of a process has left, and has it collect garbage less often than Go does by
// itself, unless the environment sets GOGC. It is for a process that has started: before, the garbage of reading
// documents and settings would be its peak.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	debug.FreeOSMemory()
}
