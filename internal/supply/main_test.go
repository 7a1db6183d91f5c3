package main

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write licences.md")

// Every module that is built in has a licence that is allowed, and stands in licences.md.
func TestLicencesAreAllowedAndListed(t *testing.T) {
	t.Parallel()
	all, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	got := table(all)
	if *update {
		if err := os.WriteFile("licences.md", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("licences.md")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("the modules differ from licences.md; run this test with -update, and read the difference")
	}
}

// A text that nobody has read is not let in.
func TestOtherLicencesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"GNU AFFERO GENERAL PUBLIC LICENSE Version 3": "",
		"All rights reserved.":                        "",
		"Permission is hereby granted, free of charge,\n to any person obtaining a copy of this": "MIT",
	} {
		if got := recognise([]byte(text)); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}
