package twilio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/twilio/twilio-go/client"
	api "github.com/twilio/twilio-go/rest/api/v2010"
)

// requestLimit is the time limit of one request, shorter than that of a command.
const requestLimit = 8 * time.Second

// redirectTransport redirects requests from the provider's usual URL to a configured one.
type redirectTransport struct {
	base *url.URL
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (e redirectTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = e.base.Scheme, e.base.Host, ""
	return e.next.RoundTrip(r)
}

// apiFor returns the provider's API for requests made in ctx, because the library does not pass on a context.
func (d *Driver) apiFor(ctx context.Context) *api.ApiService {
	if d.cfg.Tracer == nil {
		return d.api
	}
	return newAPI(d.cfg, d.cfg.Tracer.TransportWithin(ctx, d.transport))
}

func newAPI(cfg Config, transport http.RoundTripper) *api.ApiService {
	if cfg.base != nil {
		transport = redirectTransport{cfg.base, transport}
	}
	user, password := cfg.AccountSID, cfg.AuthToken
	if cfg.APIKey != "" {
		user, password = cfg.APIKey, cfg.APISecret
	}
	c := &client.Client{Credentials: client.NewCredentials(user, password),
		HTTPClient: &http.Client{Transport: transport, Timeout: requestLimit,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	c.SetAccountSid(cfg.AccountSID)
	return api.NewApiService(&client.RequestHandler{Client: c, Edge: cfg.edge(), Region: cfg.mixer()})
}

// Error codes of the provider.
const (
	codeNotInProgress = 21220 // the call is over, or not yet answered
	codeNotFound      = 20404
)

// refused maps error codes for numbers that cannot be called to the status of their leg.
var refused = map[int]string{
	21211: statusInvalid, 21214: statusInvalid, 21217: statusInvalid, 13223: statusInvalid, 13224: statusInvalid,
	21215: statusFailed, 21216: statusFailed, 13225: statusFailed, 13226: statusFailed, 13227: statusFailed,
}

// fault describes an error only by its codes, because the provider's message may quote a number.
type fault struct{ status, code int }

func (f fault) Error() string {
	return fmt.Sprintf("the telephony provider refused (status %d, code %d)", f.status, f.code)
}

// reduceError reduces an error of the library.
func reduceError(err error) error {
	if err == nil {
		return nil
	}
	var refusal *client.TwilioRestError
	if errors.As(err, &refusal) {
		return fault{refusal.Status, refusal.Code}
	}
	var dialling *net.OpError
	if errors.As(err, &dialling) && dialling.Op == "dial" {
		return errUnreachable
	}
	return errNoAnswer
}

var (
	errUnreachable = errors.New("the telephony provider cannot be reached")
	// the request may have taken effect
	errNoAnswer = errors.New("the telephony provider gave no answer that can be read")
)

// hadNoEffect reports whether the request definitely had no effect. A 5xx error leaves that open.
func hadNoEffect(err error) bool {
	var f fault
	return errors.Is(err, errUnreachable) || errors.As(err, &f) && f.status/100 == 4
}

func hasCode(err error, code int) bool {
	var f fault
	return errors.As(err, &f) && f.code == code
}

// parseTime parses a time of the provider. It returns now if the text is invalid or in the future.
func parseTime(text string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC1123Z, text)
	if err != nil || at.After(now) {
		return now
	}
	return at.UTC()
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
