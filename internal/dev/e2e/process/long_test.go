package process_test

import "os"

// rounds returns how often to repeat a race: often in "make test-long", a few times in "make test".
func rounds(short, long int) int {
	if os.Getenv("PARTNERD_TEST_LONG") != "" {
		return long
	}
	return short
}
