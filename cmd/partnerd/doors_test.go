package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/alecthomas/kong"
)

// TestDoorsNameEveryCommand checks that the entry points of a consultation name every command, and only existing ones.
func TestDoorsNameEveryCommand(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../openapi/spec/doors.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`command:([^`]+)`").FindAllStringSubmatch(string(raw), -1) {
		named[m[1]] = true
	}
	var c cli
	parser, err := kong.New(&c, kong.Name(""))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(false) {
		path := ""
		for n := leaf; n != nil && n.Type == kong.CommandNode; n = n.Parent {
			path = n.Name + " " + path
		}
		exist[path[:len(path)-1]] = true
	}
	for command := range exist {
		if !named[command] {
			t.Errorf("doors.md does not name command:%s", command)
		}
	}
	for command := range named {
		if !exist[command] {
			t.Errorf("doors.md names command:%s, which does not exist", command)
		}
	}
}
