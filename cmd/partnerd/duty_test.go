package main

import (
	"fmt"
	"testing"
)

func TestParseHours(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mon-wed 09:00-12:30": "[{Monday 540 750} {Tuesday 540 750} {Wednesday 540 750}]",
		"Sat-mon 8:00-24:00":  "[{Saturday 480 1440} {Sunday 480 1440} {Monday 480 1440}]",
		"sun 00:00-00:01":     "[{Sunday 0 1}]",
		"":                    "", "mon": "", "mon 9-12": "", "mon 09:00": "", "mon 09:00-24:01": "", "mon 09:60-10:00": "", "mon 9:5-10:00": "",
		"mon -1:00-10:00": "", "lundi 09:00-12:00": "", "mon-x 09:00-12:00": "",
	} {
		h, err := parseHours(text)
		if got := fmt.Sprint(h); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}
