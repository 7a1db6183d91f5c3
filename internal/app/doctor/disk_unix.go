//go:build linux || darwin

package doctor

import "syscall"

// freeBytes returns the space on a folder's disk that an unprivileged process can use.
func freeBytes(folder string) (uint64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, err
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}
