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

	"partnerd/internal/text"
)

const (
	maxNameLength   = 100 // code points
	maxRedirectURIs = 20
	maxURILength    = 2048 // bytes
	maxRate         = 1_000_000
)

// ParseScopes reads scopes separated by single spaces and returns each once, in the order of [AllScopes].
// An empty text or an unknown scope is an error.
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

// FormatScopes is the opposite of [ParseScopes].
func FormatScopes(scopes []Scope) string {
	parts := make([]string, len(scopes))
	for i, s := range scopes {
		parts[i] = string(s)
	}
	return strings.Join(parts, " ")
}

// Ordered returns the known ones among scopes, each once, in the order of [AllScopes].
func Ordered(scopes []Scope) []Scope {
	var out []Scope
	for _, s := range AllScopes {
		if slices.Contains(scopes, s) {
			out = append(out, s)
		}
	}
	return out
}

// Common returns those of scopes that are in limit, in their order.
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

// Within tells whether every one of scopes is in limit.
func Within(scopes, limit []Scope) bool {
	for _, s := range scopes {
		if !slices.Contains(limit, s) {
			return false
		}
	}
	return true
}

func checked(n NewApplication) (NewApplication, error) {
	n.Name = norm.NFC.String(strings.TrimSpace(n.Name))
	if !text.IsName(n.Name, maxNameLength) {
		return n, refuse("name", "the name must have 1 to %d characters on one line", maxNameLength)
	}
	if len(n.RedirectURIs) == 0 || len(n.RedirectURIs) > maxRedirectURIs {
		return n, refuse("redirectUris", "1 to %d redirect URIs are needed", maxRedirectURIs)
	}
	for i, uri := range n.RedirectURIs {
		if err := checkRedirectURI(uri, n.Live); err != nil {
			return n, err
		}
		if slices.Contains(n.RedirectURIs[:i], uri) {
			return n, refuse("redirectUris", "redirect URI %q is given twice", uri)
		}
	}
	if len(n.Scopes) == 0 {
		n.Scopes = AllScopes
	}
	if !Within(n.Scopes, AllScopes) {
		return n, refuse("scopes", "unknown scope among %q", FormatScopes(n.Scopes))
	}
	n.Scopes = Ordered(n.Scopes)
	if n.RatePerMinute < 0 || n.ClientRatePerMinute < 0 || n.RatePerMinute > maxRate || n.ClientRatePerMinute > maxRate {
		return n, refuse("rate", "a rate must be between 0 and %d a minute", maxRate)
	}
	if n.ContactEmail != "" && !text.IsEmail(n.ContactEmail) {
		return n, refuse("contactEmail", "%.80q is not an e-mail address", n.ContactEmail)
	}
	return n, nil
}

// changed applies c to what an application is.
func (c Change) changed(a Application) NewApplication {
	n := NewApplication{Name: a.Name, RedirectURIs: a.RedirectURIs, Scopes: a.Scopes, ContactEmail: a.ContactEmail,
		RecordingEnabled: a.RecordingEnabled, RatePerMinute: a.RatePerMinute, ClientRatePerMinute: a.ClientRatePerMinute}
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

// answerParameters are added to a redirect URI by the authorization endpoint and must not be there before.
var answerParameters = []string{"code", "state", "iss", "error", "error_description", "error_uri"}

// checkRedirectURI takes https with a host; http only on loopback and only in a sandbox.
func checkRedirectURI(uri string, live bool) error {
	refuse := func(why string) error { return refuse("redirectUris", "redirect URI %.200q %s", uri, why) }
	if len(uri) > maxURILength {
		return refuse("is too long")
	}
	for _, c := range []byte(uri) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return refuse("holds a character that must be percent-encoded")
		}
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return refuse("is not an absolute URL")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("has an impossible port")
		}
	}
	switch {
	case strings.Contains(uri, "#"):
		return refuse("has a fragment")
	case u.User != nil:
		return refuse("holds credentials")
	case strings.Contains(u.Host, "*"):
		return refuse("has a wildcard")
	case u.Scheme == "http" && live:
		return refuse("must be https")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return refuse("must be https (http only for localhost)")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("must be https")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("has a malformed query")
	}
	for _, p := range answerParameters {
		if query.Has(p) {
			return refuse("has the query parameter " + p + ", which the answer uses")
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

// storable tells whether Postgres takes s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
