package webhook

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestRetryDelayFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	var total time.Duration
	for n := 1; n < MaxAttempts; n++ {
		base := schedule[n-1]
		total += base
		for random, want := range map[float64]time.Duration{0: base * 8 / 10, 0.5: base, 0.999999999: base * 12 / 10} {
			got, ok := retryDelay(n, 0, random)
			if diff := (got - want).Abs(); !ok || diff > time.Millisecond {
				t.Errorf("after attempt %d with random %v: %v %v, want %v", n, random, got, ok, want)
			}
		}
	}
	if total < 70*time.Hour || total > 72*time.Hour {
		t.Errorf("schedule takes %v, want about 71 h", total)
	}
	for _, n := range []int{MaxAttempts, MaxAttempts + 1} {
		if _, ok := retryDelay(n, time.Hour, 0.5); ok {
			t.Errorf("attempt %d was followed by another", n)
		}
	}
}

func TestRetryAfterIsHonouredBetweenOnceAndTwiceTheDelay(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, 10 * time.Second: 30 * time.Second, 45 * time.Second: 45 * time.Second,
		24 * time.Hour: time.Minute,
	} {
		if got, _ := retryDelay(2, asked, 0.5); got != want {
			t.Errorf("Retry-After %v: %v, want %v", asked, got, want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "-5": 0, "1.5": 0, "soon": 0,
		"99999999999999999999":                            (1<<31 - 1) * time.Second,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
	} {
		if got := parseRetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		attempt int
		outcome outcome
		want    verdict
	}{
		"success": {1, outcome{status: 204}, verdict{state: Delivered, nextAt: now}},
		"first failure": {1, outcome{status: 500, class: classStatus}, verdict{state: Pending,
			nextAt: now.Add(5 * time.Second)}},
		"no answer": {2, outcome{class: classTimeout}, verdict{state: Pending, nextAt: now.Add(30 * time.Second)}},
		"gone": {1, outcome{status: 410, class: classStatus}, verdict{state: Pending,
			nextAt: now.Add(5 * time.Second), gone: true}},
		"last failure":   {12, outcome{status: 500, class: classStatus}, verdict{state: Failed, nextAt: now}},
		"last a success": {12, outcome{status: 200}, verdict{state: Delivered, nextAt: now}},
		"asked to wait": {1, outcome{status: 503, class: classStatus, retryAfter: 8 * time.Second},
			verdict{state: Pending, nextAt: now.Add(8 * time.Second)}},
	} {
		if got := decide(c.attempt, c.outcome, now, 0.5); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestBreakerCountsStallsAndActsOnlyWhenSlotsAreScarce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	stall := outcome{class: classTimeout, duration: 5 * time.Second}
	quick := outcome{class: classStatus, status: 500, duration: 30 * time.Millisecond}
	var b breaker
	var rooms []int
	var pauses []time.Duration
	for range 10 {
		b = b.after(stall, now)
		rooms = append(rooms, b.room(10, 0, true, now))
		if b.pausedUntil.After(now) {
			pauses = append(pauses, b.pausedUntil.Sub(now))
		}
		if got := b.room(10, 4, false, now); got != 6 {
			t.Errorf("with slots to spare room is %d after %d stalls, want 6", got, b.stalls)
		}
	}
	if want := []int{10, 10, 1, 1, 0, 0, 0, 0, 0, 0}; !slices.Equal(rooms, want) {
		t.Errorf("room when crowded: %v, want %v", rooms, want)
	}
	if want := []time.Duration{10e9, 20e9, 40e9, 80e9, 120e9, 120e9}; !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	later := now.Add(longestPause)
	if b.room(10, 0, true, later) != 1 || b.room(10, 1, true, later) != 0 {
		t.Error("after the pause exactly one attempt may probe")
	}
	if b.after(outcome{status: 200, duration: 5 * time.Second}, now) != (breaker{}) ||
		b.after(quick, now) != (breaker{}) {
		t.Error("an endpoint that answers again is still held for stalling")
	}
	if got := (breaker{}).room(10, 12, false, now); got != 0 {
		t.Errorf("room below zero: %d", got)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	live := Config{Ports: []uint16{8443}}
	sandbox := Config{Sandbox: true, AllowLoopback: true}
	closed := Config{Sandbox: true}
	for _, c := range []struct {
		url                   string
		live, sandbox, closed bool // accepted?
	}{
		{"https://crm.example/hooks?tenant=7", true, true, true},
		{"https://crm.example:8443/hooks", true, true, true},
		{"https://crm.example:444/hooks", false, true, true},
		{"https://crm.example:0/", false, false, false},
		{"https://crm.example:99999/", false, false, false},
		{"http://crm.example/hooks", false, true, true},
		{"http://127.0.0.1:9000/hooks", false, true, false},
		{"http://localhost:9000/hooks", false, true, false},
		{"http://LOCALHOST.:9000/hooks", false, true, false},
		{"http://[::1]:9000/", false, true, false},
		{"https://93.184.216.34/", true, true, true},
		{"https://10.0.0.1/", false, false, false},
		{"https://192.168.1.1/", false, false, false},
		{"https://169.254.169.254/latest/meta-data", false, false, false},
		{"https://168.63.129.16/", false, false, false},
		{"https://100.64.0.1/", false, false, false},
		{"https://0.0.0.0/", false, false, false},
		{"https://224.0.0.1/", false, false, false},
		{"https://[fe80::1%25eth0]/", false, false, false},
		{"https://[fd00::1]/", false, false, false},
		{"https://[::ffff:127.0.0.1]/", false, false, false},
		{"https://[64:ff9b::7f00:1]/", false, false, false},
		{"https://user@crm.example/", false, false, false},
		{"https://user:word@crm.example/", false, false, false},
		{"https://crm.example/#part", false, false, false},
		{"https://crm.example/#", false, false, false},
		{"https:///hooks", false, false, false},
		{"https:crm.example", false, false, false},
		{"//crm.example/hooks", false, false, false},
		{"/hooks", false, false, false},
		{"crm.example", false, false, false},
		{"ftp://crm.example/", false, false, false},
		{"javascript:alert(1)", false, false, false},
		{"https://crm.example/a b", false, false, false},
		{"https://crm.example/\r\nX: y", false, false, false},
		{"https://crm.example/\x00", false, false, false},
		{"https://crm.example/" + strings.Repeat("a", 2048), false, false, false},
		{"", false, false, false},
	} {
		for name, want := range map[string]bool{
			"live": c.live, "sandbox": c.sandbox, "sandbox without loopback": c.closed,
		} {
			cfg := map[string]Config{"live": live, "sandbox": sandbox, "sandbox without loopback": closed}[name]
			if fault := checkURL(c.url, cfg.Sandbox, newGuard(cfg)); (fault == nil) != want {
				t.Errorf("%q in %s: %v, want accepted %v", c.url, name, fault, want)
			}
		}
	}
}

func TestTheMessageOfABadURLSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	live, sandbox := Config{Ports: []uint16{8443}}, Config{Sandbox: true}
	for _, c := range []struct {
		cfg       Config
		url, want string
	}{
		{live, "https://crm.example/%zz", `Must be a valid URL: invalid URL escape "%zz".`},
		{live, "https://crm.example:443a/", `Must be a valid URL: invalid port ":443a" after host.`},
		{live, "https://crm.example/a b", "Must not contain spaces or control characters."},
		{live, "https://crm.example/" + strings.Repeat("a", maxURL), "Must have at most 2048 characters."},
		{live, "https://crm.example/" + strings.Repeat("é", maxURL),
			"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded."},
		{live, "https://crm.example/?name=é",
			"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded."},
		{live, "https://127。0。0。1/",
			"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded."},
		{live, "https://１２７.0.0.1/",
			"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded."},
		{live, "https://127%E3%80%820%E3%80%820%E3%80%821/",
			"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded."},
		{live, "http://crm.example/", "Must begin with https://."},
		{sandbox, "ftp://crm.example/", "Must begin with https:// or http://."},
		{live, "https://crm.example:444/", "Must have one of the allowed ports: 443, 8443."},
		{sandbox, "https://crm.example:99999/", "Must have a port from 1 to 65535."},
		{live, "https://xn--bcher-kva.example/b%C3%BCcher", ""},
		{live, "https://crm.example/" + strings.Repeat("a", maxURL-len("https://crm.example/")), ""},
	} {
		got := ""
		if issue := checkURL(c.url, c.cfg.Sandbox, newGuard(c.cfg)); issue != nil {
			got = issue.Message
		}
		if got != c.want {
			t.Errorf("%.60q: %q, want %q", c.url, got, c.want)
		}
	}
}

func TestARetryAfterBeyondEveryNumberIsStretchedLikeAGreatOne(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"3600", "99999999999999999999", "4294967296"} {
		if got, ok := retryDelay(1, parseRetryAfter(header, time.Time{}), 0.5); !ok || got != 10*time.Second {
			t.Errorf("%s: %v, want twice the delay", header, got)
		}
	}
	for _, header := range []string{"", "-1", "-99999999999999999999", "soon", "1.5"} {
		if got := parseRetryAfter(header, time.Time{}); got != 0 {
			t.Errorf("%q: %v", header, got)
		}
	}
}

func TestExcerptIsTextThatTheDatabaseTakes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"a\x00b":        "a\uFFFDb",
		"é\xff\xfe":     "é\uFFFD",
		"1234567890é":   "1234567890é",
		"12345678901é3": "12345678901", // the character does not fit
	} {
		if got := excerpt([]byte(in), 12); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	zeros := excerpt(make([]byte, 10_000), maxStored)
	if len(zeros) > maxStored || !utf8.ValidString(zeros) || strings.Contains(zeros, "\x00") {
		t.Errorf("excerpt of zeros: %d bytes", len(zeros))
	}
}
