// Command opencopy opens a lawyer's copy of a note as the lawyer would, with a key file created by a browser. The
// browser tests compare its output.
package main

import (
	"fmt"
	"io"
	"os"

	"filippo.io/age"
	"filippo.io/age/armor"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: opencopy KEYFILE COPY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(keyFile, copyFile string) error {
	key, err := os.Open(keyFile)
	if err != nil {
		return err
	}
	defer key.Close()
	identities, err := age.ParseIdentities(key)
	if err != nil {
		return err
	}
	sealed, err := os.Open(copyFile)
	if err != nil {
		return err
	}
	defer sealed.Close()
	text, err := age.Decrypt(armor.NewReader(sealed), identities...)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, text)
	return err
}
