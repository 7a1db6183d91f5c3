package payment

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestReturnURLRule(t *testing.T) {
	t.Parallel()
	const no, sandboxOnly, yes = 0, 1, 2
	for raw, want := range map[string]int{
		"https://crm.example/wallet":               yes,
		"https://crm.example":                      yes,
		"https://crm.example:8443/a?b=c&d":         yes,
		"HTTPS://crm.example/":                     yes,
		"https://crm.example/#/wallet":             yes,
		"https://[2001:db8::1]/":                   yes,
		"https://localhost/":                       yes,
		"http://localhost:3000/done":               sandboxOnly,
		"http://LOCALHOST/done":                    sandboxOnly,
		"http://127.0.0.1/done":                    sandboxOnly,
		"http://[::1]:3000/done":                   sandboxOnly,
		"http://crm.example/":                      no,
		"http://localhost.evil.example/":           no,
		"http://127.0.0.1.evil.example/":           no,
		"http://127.0.0.2/":                        no,
		"":                                         no,
		"not a url":                                no,
		"/relative":                                no,
		"//crm.example/":                           no,
		"https:crm.example":                        no,
		"https:///path":                            no,
		"https://:443/":                            no,
		"https://crm.example:/":                    no,
		"https://crm.example:0/":                   no,
		"https://crm.example:65536/":               no,
		"https://user@crm.example/":                no,
		"https://user:secret@crm.example/":         no,
		"https://@crm.example/":                    no,
		"https://crm.example\\@evil.example/":      no,
		"https://crm.example/a b":                  no,
		" https://crm.example/":                    no,
		"https://crm.example/\n":                   no,
		"https://crm.example/\x00":                 no,
		"https://crm.example/é":                    no,
		"https://crm.example/%zz":                  no,
		"javascript:alert(1)":                      no,
		"data:text/html,x":                         no,
		"ftp://crm.example/":                       no,
		"com.example.app://callback":               no,
		"https://crm.example/" + "%F0%9F%92%B0?x=": yes,
	} {
		if fault := returnURLError(raw, true); (fault == "") != (want >= sandboxOnly) {
			t.Errorf("%q in a sandbox: %q", raw, fault)
		}
		if fault := returnURLError(raw, false); (fault == "") != (want == yes) {
			t.Errorf("%q live: %q", raw, fault)
		}
	}
}

func TestCreateLimits(t *testing.T) {
	t.Parallel()
	cfg := Config{Sandbox: true, MaxTopUp: DefaultMaxTopUp}
	long := "https://crm.example/" + strings.Repeat("a", maxReturnURL)
	for _, c := range []struct {
		amount int64
		url    string
		want   string
	}{
		{2000, "https://crm.example/", ""},
		{100_000, long[:maxReturnURL], ""},
		{1999, "https://crm.example/", "amountCents too_small"},
		{-2000, "https://crm.example/", "amountCents too_small"},
		{100_001, "https://crm.example/", "amountCents invalid_value"},
		{2000, long[:maxReturnURL+1], "returnUrl too_long"},
		{0, "x", "amountCents too_small, returnUrl invalid_url"},
	} {
		var got []string
		for _, i := range checkCreate(CreateCommand{Amount: moneyOf(c.amount), ReturnURL: c.url}, cfg) {
			if i.Message == "" {
				t.Errorf("%+v: issue without a message", c)
			}
			got = append(got, i.Path+" "+i.Code)
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%d, %d bytes: %q, want %q", c.amount, len(c.url), g, c.want)
		}
	}
}

func TestReturnAddsTheOutcomeToTheQuery(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://crm.example/done":           "https://crm.example/done?topup=success",
		"https://crm.example":                "https://crm.example?topup=success",
		"https://crm.example/done?":          "https://crm.example/done?topup=success",
		"https://crm.example/done?a=b%20c":   "https://crm.example/done?a=b%20c&topup=success",
		"https://crm.example/done?a&":        "https://crm.example/done?a&topup=success",
		"https://crm.example/#/wallet?tab=1": "https://crm.example/?topup=success#/wallet?tab=1",
	} {
		if got := (Session{ReturnURL: raw}).Return(true); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	if got := (Session{ReturnURL: "https://crm.example/"}).Return(
		false,
	); got != "https://crm.example/?topup=cancelled" {
		t.Error(got)
	}
}

// For every accepted URL, the browser is sent to the host that was checked, with the outcome.
func FuzzReturnGoesToTheHostThatWasChecked(f *testing.F) {
	for _, s := range []string{"https://crm.example/a?b#c", "https://crm.example#?", "http://localhost:1/?&&",
		"https://a@b/", `https://a\b/`, "https://a?#?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if returnURLError(raw, true) != "" {
			return
		}
		checked, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(Session{ReturnURL: raw}.Return(true))
		if err != nil || u.Scheme != checked.Scheme || u.Host != checked.Host || u.Path != checked.Path ||
			u.Fragment != checked.Fragment {
			t.Fatalf("%q became %v, %v", raw, u, err)
		}
		if !strings.HasSuffix("&"+u.RawQuery, "&topup=success") {
			t.Fatalf("%q: query %q", raw, u.RawQuery)
		}
	})
}

func TestOpenSessionExpiresAtItsTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		stored Status
		now    time.Time
		want   Status
	}{
		{Open, at.Add(-time.Microsecond), Open}, {Open, at, Expired}, {Open, at.Add(time.Hour), Expired},
		{Paid, at.Add(time.Hour), Paid}, {Cancelled, at.Add(time.Hour), Cancelled},
	} {
		if got := statusAt(c.stored, at, c.now); got != c.want {
			t.Errorf("%s at %v: %s, want %s", c.stored, c.now, got, c.want)
		}
	}
}

func TestNoticeSignature(t *testing.T) {
	t.Parallel()
	now, body := time.Unix(1_780_000_000, 0), []byte(`{"id":"ntc_1"}`)
	good := SignNotice("key", now, body)
	if want := "t=1780000000,v1="; !strings.HasPrefix(good, want) || len(good) != len(want)+64 {
		t.Fatalf("signature %q", good)
	}
	for name, c := range map[string]struct {
		secret, header string
		body           []byte
		at             time.Time
		ok             bool
	}{
		"right":          {"key", good, body, now, true},
		"299 s old":      {"key", good, body, now.Add(299 * time.Second), true},
		"300 s old":      {"key", good, body, now.Add(300 * time.Second), false},
		"299 s ahead":    {"key", good, body, now.Add(-299 * time.Second), true},
		"300 s ahead":    {"key", good, body, now.Add(-300 * time.Second), false},
		"other body":     {"key", good, []byte(`{"id":"ntc_2"}`), now, false},
		"other key":      {"yek", good, body, now, false},
		"other time":     {"key", strings.Replace(good, "t=1780000000", "t=1780000001", 1), body, now, false},
		"no key":         {"", SignNotice("", now, body), body, now, false},
		"empty":          {"key", "", body, now, false},
		"no mac":         {"key", "t=1780000000,v1=", body, now, false},
		"short mac":      {"key", good[:len(good)-2], body, now, false},
		"no time":        {"key", good[strings.Index(good, "v1="):], body, now, false},
		"huge time":      {"key", SignNotice("key", time.Unix(1<<62, 0), body), body, now, false},
		"not hex":        {"key", good[:len(good)-1] + "g", body, now, false},
		"something more": {"key", good + ",v1=00", body, now, false},
	} {
		if err := verifyNotice(c.secret, c.header, c.body, c.at); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseNotice(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		`{"id":"n","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z"}`:          true,
		`{"id":"n","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z","x":1}`:    true,
		`{"id":"n","type":"checkout.paid","sessionId":"s","amountCents":2000.5,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z"}`:        false,
		`{"id":"n","type":"checkout.paid","sessionId":"s","amountCents":"2000","currency":"EUR","createdAt":"2026-03-01T09:00:00Z"}`:        false,
		`{"id":"","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z"}`:           false,
		`{"id":"n\u0000","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z"}`:    false,
		`{"id":"n","type":"checkout.paid","amountCents":2000,"currency":"EUR"}`:                                                             false,
		`{"id":"n","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR","createdAt":"2026-03-01T09:00:00Z"} trailing`: false,
		`{"id":"` + strings.Repeat("n", 256) +
			`","type":"checkout.paid","sessionId":"s","amountCents":2000,"currency":"EUR"}`: false,
		`{"pad":"` + strings.Repeat("n", maxNotice) +
			`"}`: false,
		`null`: false, ``: false, `[]`: false,
	} {
		now := time.Unix(1_780_000_000, 0)
		n, _, err := builtin{"key"}.ReadNotice([]byte(body), SignNotice("key", now, []byte(body)), now)
		if err == nil {
			err = n.check()
		}
		if (err == nil) != ok {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}
