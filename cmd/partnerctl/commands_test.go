package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// TestTheClockTakesSecondsAndDurations checks that the clock takes seconds, as the API does, and durations. It never
// goes back.
func TestTheClockTakesSecondsAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"60": time.Minute, "1": time.Second, "30m": 30 * time.Minute, "24h": 24 * time.Hour,
	} {
		var d span
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %s, %v", text, time.Duration(d), err)
		}
	}
	for _, text := range []string{"", "0", "-5", "-5m", "10ms", "tomorrow", "99999999999999999999"} {
		var d span
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %s", text, time.Duration(d))
		}
	}
}

// TestListsHaveTheNewestLast checks that lists which the API returns newest first are shown newest last, like events.
func TestListsHaveTheNewestLast(t *testing.T) {
	t.Parallel()
	if got := (page[int]{Items: []int{3, 2, 1}}).newestLast(); got[0] != 1 || got[2] != 3 {
		t.Errorf("%v", got)
	}
}

// TestAMisspeltCommandIsCorrected checks that a misspelt command is answered with the intended one.
func TestAMisspeltCommandIsCorrected(t *testing.T) {
	t.Parallel()
	var c cli
	_, err := kong.Must(&c, kong.Vars{"version": "", "address": ""}).Parse([]string{"delivries"})
	if err == nil || err.Error() != `unexpected argument delivries, did you mean "deliveries"?` {
		t.Errorf("%v", err)
	}
}

// TestTheServiceOfMakeRunIsAsked checks that without a configured URL the program uses the service of make run. If
// nothing responds it names that URL.
func TestTheServiceOfMakeRunIsAsked(t *testing.T) {
	for _, set := range []struct{ addr, base, own, want string }{
		{want: "http://localhost:8080"},
		{addr: "127.0.0.1:1", want: "http://localhost:1"}, {addr: ":1", want: "http://localhost:1"},
		{addr: "[::1]:1", want: "http://localhost:1"},
		{addr: "127.0.0.1:1", base: "https://api.example", want: "https://api.example"},
		{addr: "127.0.0.1:2", base: "https://api.example", own: "http://localhost:1", want: "http://localhost:1"},
	} {
		t.Setenv("PARTNERD_ADDR", set.addr)
		t.Setenv("PARTNERD_BASE_URL", set.base)
		args := []string{"checklist", "--client-id", "app_1"}
		if set.own != "" {
			args = append(args, "--base-url", set.own)
		}
		var c cli
		if _, err := kong.Must(&c, kong.Vars{"version": "", "address": address()}).Parse(args); err != nil {
			t.Fatal(err)
		}
		if c.BaseURL != set.want {
			t.Errorf("%+v: it asks %s", set, c.BaseURL)
		}
	}
	t.Setenv("PARTNERCTL_CLIENT_SECRET", "sk_1")
	_, err := (&service{BaseURL: "http://localhost:1", ClientID: "app_1"}).call(t.Context(), "GET", "/application", nil)
	if err == nil || !strings.Contains(err.Error(), "http://localhost:1 ") ||
		!strings.Contains(err.Error(), "PARTNERCTL_BASE_URL") {
		t.Errorf("nothing responds: %v", err)
	}
}
