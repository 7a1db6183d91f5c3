package edge

import (
	"fmt"
	"net/http"
	"net/url"
)

// Origins tells requests that our own pages cause from those that other sites cause. Safe for concurrent use.
type Origins struct {
	base, scheme string
	protection   *http.CrossOriginProtection
}

// NewOrigins is for a site at an absolute URL.
func NewOrigins(baseURL string) (*Origins, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("read base URL: %w", err)
	}
	o := &Origins{base: base.Scheme + "://" + base.Host, scheme: base.Scheme,
		protection: http.NewCrossOriginProtection()}
	if err := o.protection.AddTrustedOrigin(o.base); err != nil {
		return nil, fmt.Errorf("trust base URL: %w", err)
	}
	return o, nil
}

// Ours tells whether a request may act for who is signed in: its browser names no other site. The scheme belongs to the
// origin, so a page over plain HTTP, which anybody on the way can write, is none of ours where the base URL is https.
func (o *Origins) Ours(r *http.Request) bool {
	if o.protection.Check(r) != nil {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == o.base || origin == o.scheme+"://"+r.Host
}
