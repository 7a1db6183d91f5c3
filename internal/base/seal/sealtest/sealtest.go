// Package sealtest provides keys for tests.
package sealtest

import (
	"testing"

	"partnerd/internal/base/seal"
)

// Box returns a box with its own key.
func Box(t testing.TB) *seal.Box {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.OpenBox(key)
	if err != nil {
		t.Fatal(err)
	}
	return box
}
