package webhook

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"partnerd/internal/base/problem"
)

// MaxAttempts is the number of attempts of a delivery, including the first (decision H19).
const MaxAttempts = 12

// schedule[n-1] is the delay after failed attempt n: about 71 hours in total.
var schedule = [MaxAttempts - 1]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 24 * time.Hour,
}

const jitter = 0.2

// retryDelay returns how long to wait after the failed attempt (from 1), or false if none is left. random is in [0,1).
// An endpoint may ask for a later time (retryAfter, 0 for none), up to twice the delay.
func retryDelay(attempt int, retryAfter time.Duration, random float64) (time.Duration, bool) {
	if attempt >= MaxAttempts {
		return 0, false
	}
	delay := time.Duration(float64(schedule[attempt-1]) * (1 - jitter + 2*jitter*random))
	return max(delay, min(retryAfter, 2*delay)), true
}

// parseRetryAfter parses a Retry-After header, in seconds or as an HTTP date. It returns 0 if it is absent, past or
// invalid.
func parseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	seconds, err := strconv.ParseUint(header, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // ErrRange returns the largest number in range
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// DisableAfter is how long an endpoint may fail without a success before it is disabled (decision H19).
const DisableAfter = 5 * 24 * time.Hour

// Reasons for disabling an endpoint.
const (
	DisabledGone    = "gone"    // the endpoint responded with 410
	DisabledFailing = "failing" // [DisableAfter] without a success
)

// verdict is what an attempt means for its delivery and endpoint.
type verdict struct {
	state  State
	nextAt time.Time // if PENDING
	gone   bool      // the endpoint wants no more deliveries
}

func decide(attempt int, o outcome, now time.Time, random float64) verdict {
	if o.class == "" {
		return verdict{state: Delivered, nextAt: now}
	}
	v := verdict{state: Failed, nextAt: now, gone: o.status == http.StatusGone}
	if delay, ok := retryDelay(attempt, o.retryAfter, random); ok {
		v.state, v.nextAt = Pending, now.Add(delay)
	}
	return v
}

// Limits of the breaker. A stall is a failure that occupied a slot for stallTime or longer. Quick failures cost little,
// and the schedule alone spaces them.
const (
	stallTime     = time.Second
	stallsToProbe = 3
	stallsToPause = 5
	firstPause    = 10 * time.Second
	longestPause  = 2 * time.Minute
)

// breaker tracks how an endpoint stalls. The zero value is a healthy endpoint.
type breaker struct {
	stalls      int // in a row
	pausedUntil time.Time
}

func (b breaker) after(o outcome, now time.Time) breaker {
	if o.class == classProxy {
		return b
	}
	if o.class == "" || o.duration < stallTime {
		return breaker{}
	}
	b.stalls++
	if over := b.stalls - stallsToPause; over >= 0 {
		b.pausedUntil = now.Add(min(firstPause<<min(over, 10), longestPause))
	}
	return b
}

// room returns how many attempts may start at an endpoint with inFlight in progress, out of limit. While the process
// has free slots (not crowded), a stalling endpoint keeps its share and its schedule.
func (b breaker) room(limit, inFlight int, crowded bool, now time.Time) int {
	if crowded && b.stalls >= stallsToProbe {
		limit = 1
		if now.Before(b.pausedUntil) {
			limit = 0
		}
	}
	return max(0, limit-inFlight)
}

const maxURL = 2048

// Reasons for rejecting the URL of an endpoint.
var (
	ruleURLBlank = declareURL("url.blank", "Must not contain spaces or control characters.")
	ruleURLASCII = declareURL("url.ascii",
		"Must be in ASCII: the host in Punycode (xn--…), other characters percent-encoded.")
	ruleURLLong    = declareURL("url.long", "Must have at most %d characters.")
	ruleURLBroken  = declareURL("url.broken", "Must be a valid URL: %s.")
	ruleURLScheme  = declareURL("url.https", "Must begin with https://.")
	ruleURLSandbox = declareURL("url.scheme", "Must begin with https:// or http://.")
	ruleURLHost    = declareURL("url.host", "Must be absolute, with a host.")
	ruleURLUser    = declareURL("url.user", "Must not contain a user name or password.")
	ruleURLHash    = declareURL("url.fragment", "Must not have a fragment.")
	ruleURLPort    = declareURL("url.port", "Must have a port from 1 to 65535.")
	ruleURLPorts   = declareURL("url.ports", "Must have one of the allowed ports: %s.")
	ruleURLPrivate = declareURL("url.private", "Must have a public host.")
	ruleURLPing    = declareURL("url.ping", "Did not respond with 2xx to the signed ping within %d s (%s).")
	ruleURLNone    = problem.DeclareRule("url.none", problem.IssueRequired,
		"The endpoint has no URL yet. Set a URL first.")
)

func declareURL(key, english string) *problem.Rule {
	return problem.DeclareRule(key, problem.IssueInvalidURL, english)
}

// checkURL returns why raw cannot be the URL of an endpoint (decisions H21, H22), or nil. A host that is a literal IP
// address is checked here. A name is resolved, and its addresses checked, at each connection.
//
// A URL must be ASCII, so that what is checked is what is dialled. Full-width digits and dots change on the way to a
// name server. No message contains the URL, because messages are logged and the URL may contain a token.
func checkURL(raw string, sandbox bool, guard guard) *problem.Issue {
	refuse := func(why *problem.Rule, args ...any) *problem.Issue {
		issue := why.At("url", args...)
		return &issue
	}
	switch {
	case strings.ContainsFunc(raw, isControl):
		return refuse(ruleURLBlank)
	case strings.ContainsFunc(raw, notASCII):
		return refuse(ruleURLASCII)
	case len(raw) > maxURL:
		return refuse(ruleURLLong, maxURL)
	}
	u, err := url.Parse(raw)
	var broken *url.Error
	switch {
	case errors.As(err, &broken):
		return refuse(ruleURLBroken, problem.Shown(broken.Err.Error()))
	case u.Scheme != "https" && !sandbox:
		return refuse(ruleURLScheme)
	case u.Scheme != "https" && u.Scheme != "http":
		return refuse(ruleURLSandbox)
	case u.Opaque != "" || u.Hostname() == "":
		return refuse(ruleURLHost)
	case strings.ContainsFunc(u.Host, notASCII): // after percent-decoding
		return refuse(ruleURLASCII)
	case u.User != nil:
		return refuse(ruleURLUser)
	case strings.Contains(raw, "#"):
		return refuse(ruleURLHash)
	}
	port, err := portOf(u)
	if err != nil || !guard.allowsPort(port) {
		if guard.ports == nil {
			return refuse(ruleURLPort)
		}
		return refuse(ruleURLPorts, enumerated(guard.ports))
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil && guard.SafeAddr(addr.WithZone("")) != nil {
		return refuse(ruleURLPrivate)
	}
	if isLocalName(host) && !guard.loopback {
		return refuse(ruleURLPrivate)
	}
	return nil
}

func enumerated(ports []uint16) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = strconv.Itoa(int(p))
	}
	return strings.Join(list, ", ")
}

func portOf(u *url.URL) (uint16, error) {
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		return uint16(n), err
	}
	if u.Scheme == "http" {
		return 80, nil
	}
	return 443, nil
}

func isLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

func notASCII(r rune) bool { return r > unicode.MaxASCII }

// excerpt returns the first n bytes of an endpoint's response as text that the database can store.
func excerpt(b []byte, n int) string {
	text := strings.ToValidUTF8(string(b[:min(len(b), n)]), "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	for len(text) > n { // replacement characters are longer than what they replace
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
