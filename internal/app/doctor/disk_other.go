//go:build !linux && !darwin

package doctor

import "errors"

// freeBytes is not supported on other systems.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
