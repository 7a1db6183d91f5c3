//go:build unix

package cluster

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestUnlockedFileIsFreeWhileAChildStillHasIt uses a duplicate in place of a child, which has the file between fork and
// exec.
func TestUnlockedFileIsFreeWhileAChildStillHasIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.lock")
	users, err := lockShared(path)
	if err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(users.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if held, err := tryLock(path); err != nil || held != nil {
		t.Fatalf("a shared lock lets an exclusive one pass: %v %v", held, err)
	}
	unlock(users)
	free, err := tryLock(path)
	if err != nil || free == nil {
		t.Fatalf("unlocked file is still locked: %v", err)
	}
	unlock(free)
}
