package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"partnerd/internal/base/clock"
)

// address checks the public base URL as visitors see it.
func (e *examination) address(ctx context.Context) {
	if e.BaseURL == "" || !e.tries("address", "PARTNERD_BASE_URL") {
		return
	}
	if err := e.CheckServing(); err != nil {
		e.fail("proxy", err.Error(), "Set PARTNERD_TRUSTED_PROXIES.")
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if u.Scheme == "https" {
		e.certificate(asking, u)
	}
	const do = "Check that partnerd serve is running; check DNS, firewall and proxy."
	r, err := http.NewRequestWithContext(asking, http.MethodGet, strings.TrimSuffix(e.BaseURL, "/")+"/readyz", nil)
	if err != nil {
		return
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		e.warn("address", e.BaseURL+" does not respond from here: "+plainly(err), do)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		e.fail("address", fmt.Sprintf("%s/readyz returns %s", e.BaseURL, answer.Status), do)
		return
	}
	e.ok("address", e.BaseURL+" is ready")
}

func (e *examination) certificate(ctx context.Context, u *url.URL) {
	const do = "Renew the certificate at the proxy, and find out why it was not renewed automatically."
	until, err := expiry(ctx, u)
	var invalid *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid):
		e.fail("certificate", invalid.Error(), do)
		return
	case err != nil:
		e.warn("certificate", "could not be checked: "+plainly(err), "Check DNS, firewall and proxy.")
		return
	}
	left := until.Sub(clock.System{}.Now())
	found := fmt.Sprintf("valid until %s (%d days)", until.UTC().Format(time.DateOnly), int(left.Hours()/24))
	switch {
	case left < certificate/3:
		e.fail("certificate", found, do)
	case left < certificate:
		e.warn("certificate", found, do)
	default:
		e.ok("certificate", found)
	}
}

// plainly returns the cause of a failed request without the URL, which is reported separately.
func plainly(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}
