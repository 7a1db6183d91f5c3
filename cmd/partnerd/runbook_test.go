package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestTheCommandsOfTheDocumentsAreThere checks that every command in the operators' documents exists, with the flags
// used there. If flags are given, none that is required may be missing.
func TestTheCommandsOfTheDocumentsAreThere(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(cli))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../.deploy/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?m)`(?:bin/)?partnerd ([^`]+)`|^bin/partnerd ([^#\n]+)")
	found := 0
	for _, file := range append(files, "../../README.md") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(raw), -1) {
			command := m[1] + m[2]
			if fault := commandFault(parser.Model.Node, strings.Fields(command)); fault != "" {
				t.Errorf("%s: partnerd %s: %s", filepath.Base(file), command, fault)
			}
			found++
		}
	}
	if found < 40 {
		t.Errorf("%d commands were found: the test cannot read the documents", found)
	}
}

func commandFault(node *kong.Node, words []string) string {
	for len(words) > 0 && len(node.Children) > 0 && !strings.HasPrefix(words[0], "-") {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == words[0] })
		if i < 0 {
			return "there is no " + words[0]
		}
		node, words = node.Children[i], words[1:]
	}
	var given []string
	for _, w := range words {
		flag, _, _ := strings.Cut(w, "=")
		name, long := strings.CutPrefix(strings.Trim(flag, "[](),"), "--")
		if !long {
			continue
		}
		if of, file := strings.CutSuffix(name, "-file"); file {
			if _, secret := secretFlags[of]; secret {
				name = of
			}
		}
		given = append(given, name)
	}
	var known, missing []string
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			known = append(known, f.Name)
			if f.Required && !slices.Contains(given, f.Name) {
				missing = append(missing, f.Name)
			}
		}
	}
	for _, name := range given {
		if !slices.Contains(known, name) && name != "help" {
			return "it has no --" + name
		}
	}
	if len(given) > 0 && len(missing) > 0 && !slices.Contains(given, "help") {
		return "it needs --" + strings.Join(missing, " and --")
	}
	return ""
}
