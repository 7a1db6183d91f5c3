//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing and relies on the probes. Other systems also send them while a request is in progress, or
// have limits of their own.
func limitSilence(_, _ string, _ syscall.RawConn) error { return nil }
