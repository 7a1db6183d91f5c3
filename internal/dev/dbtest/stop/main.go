// Command stop ends the Postgres cluster that tests leave running, unless a test still uses it.
package main

import (
	"context"
	"fmt"
	"os"

	"partnerd/internal/dev/dbtest"
)

func main() {
	stopped, err := dbtest.Stop(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "stop the tests' database:", err)
		os.Exit(1)
	}
	if !stopped {
		fmt.Fprintln(os.Stderr, "the tests' database is still in use and stays up")
	}
}
