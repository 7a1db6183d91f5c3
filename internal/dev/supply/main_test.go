package main

import "testing"

// Every module that is built in has a licence that is allowed.
func TestLicencesAreAllowed(t *testing.T) {
	t.Parallel()
	all, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no module was found: the test cannot read them")
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
