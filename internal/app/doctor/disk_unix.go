//go:build linux || darwin

package doctor

import "syscall"

// freeBytes is the space on the disk of a folder that a process without privileges can use.
func freeBytes(folder string) (uint64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, err
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}
