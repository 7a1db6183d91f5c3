package application

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
)

const (
	maxNameLength   = 100 // code points
	maxRedirectURIs = 20
	maxURILength    = 2048      // bytes
	MaxRate         = 1_000_000 // requests per minute
)

// ParseScopes parses scopes separated by single spaces and returns each once, in the order of [AllScopes]. An empty
// text or an unknown scope is an error.
func ParseScopes(s string) ([]Scope, error) {
	var asked []Scope
	for part := range strings.SplitSeq(s, " ") {
		if !slices.Contains(AllScopes, Scope(part)) {
			return nil, fmt.Errorf("%.40q is not a scope", part)
		}
		asked = append(asked, Scope(part))
	}
	return Ordered(asked), nil
}

// FormatScopes is the inverse of [ParseScopes].
func FormatScopes(scopes []Scope) string {
	parts := make([]string, len(scopes))
	for i, s := range scopes {
		parts[i] = string(s)
	}
	return strings.Join(parts, " ")
}

// Ordered returns the known scopes among scopes, each once, in the order of [AllScopes].
func Ordered(scopes []Scope) []Scope {
	var out []Scope
	for _, s := range AllScopes {
		if slices.Contains(scopes, s) {
			out = append(out, s)
		}
	}
	return out
}

// Common returns the scopes that are also in limit, in the order of scopes.
func Common(scopes, limit []Scope) []Scope {
	if Within(scopes, limit) {
		return scopes
	}
	var out []Scope
	for _, s := range scopes {
		if slices.Contains(limit, s) {
			out = append(out, s)
		}
	}
	return out
}

// Within reports whether all scopes are in limit.
func Within(scopes, limit []Scope) bool {
	for _, s := range scopes {
		if !slices.Contains(limit, s) {
			return false
		}
	}
	return true
}

// checked returns n with every field in its stored form. kept is the application's present name, which it may keep even
// if it breaks today's rules. reserved is a name that no other application may have.
func checked(n NewApplication, kept, reserved string) (NewApplication, error) {
	n.Name = norm.NFC.String(strings.TrimSpace(n.Name))
	var issues []problem.Issue
	if n.Name != kept || n.Name == "" {
		issues = problem.Name("name", n.Name, maxNameLength)
		if issues == nil && reserved != "" && text.SameName(n.Name, reserved) {
			issues = []problem.Issue{ruleReserved.At("name")}
		}
	}
	issues = append(issues, checkRedirectURIs(n.RedirectURIs, n.Live)...)
	if len(n.Scopes) == 0 {
		n.Scopes = AllScopes
	}
	if at := slices.IndexFunc(n.Scopes, func(s Scope) bool { return !slices.Contains(AllScopes, s) }); at >= 0 {
		issues = append(issues, problem.Choice("scopes", string(n.Scopes[at])))
	}
	n.Scopes = Ordered(n.Scopes)
	issues = append(append(issues, checkRate("rate", n.RatePerMinute)...),
		checkRate("clientRate", n.ClientRatePerMinute)...)
	if n.ContactEmail != "" && !text.IsEmail(n.ContactEmail) {
		issues = append(issues, problem.Address("contactEmail", n.ContactEmail))
	}
	if issues != nil {
		return n, problem.Refuse(ErrInvalid, issues...)
	}
	return n, nil
}

func checkRate(path string, rate int) []problem.Issue {
	if rate < 0 || rate > MaxRate {
		return []problem.Issue{problem.RuleNumber.At(path, strconv.Itoa(rate), 0, MaxRate)}
	}
	return nil
}

func checkRedirectURIs(uris []string, live bool) (issues []problem.Issue) {
	if len(uris) == 0 {
		return []problem.Issue{problem.RuleRequired.At(redirectURIs)}
	}
	if len(uris) > maxRedirectURIs {
		return []problem.Issue{ruleURIs.At(redirectURIs, len(uris), maxRedirectURIs)}
	}
	for i, uri := range uris {
		if issue := checkRedirectURI(uri, live); issue != nil {
			issues = append(issues, *issue)
		} else if slices.Contains(uris[:i], uri) {
			issues = append(issues, ruleURITwice.At(redirectURIs, problem.Shown(uri)))
		}
	}
	return issues
}

// changed returns the fields of a with c applied.
func (c Change) changed(a Application) NewApplication {
	n := NewApplication{Name: a.Name, RedirectURIs: a.RedirectURIs, Scopes: a.Scopes, ContactEmail: a.ContactEmail,
		RecordingEnabled: a.RecordingEnabled, RatePerMinute: a.RatePerMinute,
		ClientRatePerMinute: a.ClientRatePerMinute}
	set(&n.Name, c.Name)
	set(&n.ContactEmail, c.ContactEmail)
	set(&n.RecordingEnabled, c.RecordingEnabled)
	set(&n.RatePerMinute, c.RatePerMinute)
	set(&n.ClientRatePerMinute, c.ClientRatePerMinute)
	if c.RedirectURIs != nil {
		n.RedirectURIs = c.RedirectURIs
	}
	if c.Scopes != nil {
		n.Scopes = c.Scopes
	}
	return n
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// responseParameters are query parameters that the authorization endpoint adds to a redirect URI. A registered URI must
// not contain them.
var responseParameters = []string{"code", "state", "iss", "error", "error_description", "error_uri"}

const redirectURIs = "redirectUris"

var ruleReserved = problem.DeclareRule("name.reserved", problem.IssueInvalidValue,
	"This is the service's own name. Choose another one.")

// Reasons to reject a redirect URI.
var (
	ruleURIs = problem.DeclareRule("uri.many", problem.IssueTooLong,
		"Has %d redirect URIs; at most %d are allowed.")
	ruleURITwice  = problem.DeclareRule("uri.twice", problem.IssueInvalidValue, `"%s" is given twice.`)
	ruleURILong   = problem.DeclareRule("uri.long", problem.IssueInvalidValue, `"%s" is longer than %d characters.`)
	ruleURIEncode = problem.DeclareRule("uri.encode", problem.IssueInvalidValue,
		`"%s" contains a character that must be percent-encoded.`)
	ruleURIHost = problem.DeclareRule("uri.absolute", problem.IssueInvalidValue, `"%s" is not an absolute URL.`)
	ruleURIPort = problem.DeclareRule("uri.port", problem.IssueInvalidValue,
		`"%s" must have a port from 1 to 65535.`)
	ruleURIHash = problem.DeclareRule("uri.fragment", problem.IssueInvalidValue,
		`"%s" must not have a fragment (#).`)
	ruleURIUser = problem.DeclareRule("uri.user", problem.IssueInvalidValue,
		`"%s" must not contain a user name or password.`)
	ruleURIWild = problem.DeclareRule("uri.wildcard", problem.IssueInvalidValue,
		`"%s" must not have a wildcard (*).`)
	ruleURISecure  = problem.DeclareRule("uri.https", problem.IssueInvalidValue, `"%s" must begin with https://.`)
	ruleURISandbox = problem.DeclareRule("uri.https.local", problem.IssueInvalidValue,
		`"%s" must use https; only localhost may use http.`)
	ruleURIQuery  = problem.DeclareRule("uri.query", problem.IssueInvalidValue, `"%s" has a malformed query.`)
	ruleURIAnswer = problem.DeclareRule("uri.parameter", problem.IssueInvalidValue,
		`"%s" must not have the query parameter "%s", which the response uses.`)
)

// checkRedirectURI accepts https URLs with a host. It accepts http only in a sandbox and only for loopback hosts.
func checkRedirectURI(uri string, live bool) *problem.Issue {
	refuse := func(why *problem.Rule, more ...any) *problem.Issue {
		issue := why.At(redirectURIs, append([]any{problem.Shown(uri)}, more...)...)
		return &issue
	}
	if len(uri) > maxURILength {
		return refuse(ruleURILong, maxURILength)
	}
	for _, c := range []byte(uri) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return refuse(ruleURIEncode)
		}
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return refuse(ruleURIHost)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse(ruleURIPort)
		}
	}
	switch {
	case strings.Contains(uri, "#"):
		return refuse(ruleURIHash)
	case u.User != nil:
		issue := ruleURIUser.At(redirectURIs, problem.Shown(u.Redacted())) // redacted, because messages are logged
		return &issue
	case strings.Contains(u.Host, "*"):
		return refuse(ruleURIWild)
	case u.Scheme == "http" && !live && !loopback(u.Hostname()):
		return refuse(ruleURISandbox)
	case u.Scheme != "https" && (u.Scheme != "http" || live):
		return refuse(ruleURISecure)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse(ruleURIQuery)
	}
	for _, p := range responseParameters {
		if query.Has(p) {
			return refuse(ruleURIAnswer, p)
		}
	}
	return nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && (a == netip.IPv6Loopback() || a == netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}

// storable reports whether Postgres accepts s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
