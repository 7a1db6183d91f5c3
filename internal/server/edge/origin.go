package edge

import (
	"fmt"
	"net/http"
	"net/url"
)

// Origins distinguishes requests caused by our own pages from requests caused by other sites. Safe for concurrent use.
type Origins struct {
	base, scheme string
	protection   *http.CrossOriginProtection
}

// NewOrigins creates the check for a site at an absolute URL.
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

// Ours reports whether a request may act for the signed-in person: its browser names no other site. The scheme is part
// of the origin. Anyone on the network path can alter a page served over plain HTTP, so such a page is not ours if the
// base URL uses https.
func (o *Origins) Ours(r *http.Request) bool {
	if o.protection.Check(r) != nil {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "null" || origin == o.base || origin == o.scheme+"://"+r.Host
}
