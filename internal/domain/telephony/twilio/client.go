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

// requestLimit is for one answer of the provider: shorter than the time that a command has.
const requestLimit = 8 * time.Second

// elsewhere sends what is for the provider's usual address to a configured one.
type elsewhere struct {
	base *url.URL
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = e.base.Scheme, e.base.Host, ""
	return e.next.RoundTrip(r)
}

// asks is the provider's interface for what is asked in ctx: the library passes no context on.
func (d *Driver) asks(ctx context.Context) *api.ApiService {
	if d.cfg.Tracer == nil {
		return d.api
	}
	return newAPI(d.cfg, d.cfg.Tracer.TransportWithin(ctx, d.transport))
}

func newAPI(cfg Config, transport http.RoundTripper) *api.ApiService {
	if cfg.base != nil {
		transport = elsewhere{cfg.base, transport}
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

// refused are the error codes that say that a number cannot be called, with the status that its leg has then.
var refused = map[int]string{
	21211: statusInvalid, 21214: statusInvalid, 21217: statusInvalid, 13223: statusInvalid, 13224: statusInvalid,
	21215: statusFailed, 21216: statusFailed, 13225: statusFailed, 13226: statusFailed, 13227: statusFailed,
}

// fault describes a failure by its codes only: the provider's words may quote a number.
type fault struct{ status, code int }

func (f fault) Error() string {
	return fmt.Sprintf("the telephony provider refused (status %d, code %d)", f.status, f.code)
}

// judge reduces an error of the library.
func judge(err error) error {
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
	// it may have done what it was told
	errNoAnswer = errors.New("the telephony provider gave no answer that can be read")
)

// certain tells whether the provider has surely not done what it was told. A fault of its own, 5xx, says nothing.
func certain(err error) bool {
	var f fault
	return errors.Is(err, errUnreachable) || errors.As(err, &f) && f.status/100 == 4
}

func hasCode(err error, code int) bool {
	var f fault
	return errors.As(err, &f) && f.code == code
}

// instant reads an instant of the provider; now when it is not one, or is still to come.
func instant(text string, now time.Time) time.Time {
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
