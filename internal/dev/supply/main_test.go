package main

import "testing"

// TestLicencesAreAllowed checks that every built-in module has an allowed licence.
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

// TestOtherLicencesAreRefused checks that a licence text no one has read is rejected.
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
