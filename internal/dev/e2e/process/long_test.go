package process_test

import "os"

// rounds is how often a race is repeated: often in "make test-long", a few times in "make test".
func rounds(short, long int) int {
	if os.Getenv("PARTNERD_TEST_LONG") != "" {
		return long
	}
	return short
}
