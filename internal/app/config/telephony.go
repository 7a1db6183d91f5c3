package config

import (
	"net/url"
	"regexp"
	"strings"

	"partnerd/internal/infra/deployment"
)

var (
	twilioAccount = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	twilioKey     = regexp.MustCompile(`^SK[0-9a-f]{32}$`)
	twilioToken   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	twilioSecret  = regexp.MustCompile(`^[0-9A-Za-z]+$`)
	twilioRegion  = regexp.MustCompile(`^([a-z]+(-[a-z]+)*\.[a-z]{2}[0-9]{1,2})?$`)
	phoneNumber   = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
)

// provider holds the checks of a telephony provider's settings.
type provider struct {
	// check reports invalid settings, without repeating a secret.
	check func(c *Config, r *refusals)
	// standIn reports what replaces the provider according to its settings, what to unset, and the remedy. All are
	// empty if calls go to the provider itself.
	standIn func(c *Config) (found, unset, do string)
}

// providers maps the names in PARTNERD_TELEPHONY to the providers of live deployments; package app opens them.
var providers = map[string]provider{"twilio": {check: checkTwilio, standIn: twilioStandIn}}

// checkTelephony reports invalid telephony settings, without repeating a secret.
func (c *Config) checkTelephony(r *refusals) {
	if c.Telephony == "" {
		return
	}
	p, ok := providers[c.Telephony]
	r.want(ok, "PARTNERD_TELEPHONY", "must be the name of a provider")
	r.want(!c.Sandbox(), "PARTNERD_TELEPHONY", "must be empty in a sandbox, which simulates calls")
	if ok {
		p.check(c, r)
	}
}

// StandIn reports what replaces the telephony provider, what to unset, and the remedy. All are empty if nothing does.
func (c *Config) StandIn() (found, unset, do string) {
	p, ok := providers[c.Telephony]
	if !ok || c.Sandbox() {
		return "", "", ""
	}
	return p.standIn(c)
}

func checkTwilio(c *Config, r *refusals) {
	r.want(twilioAccount.MatchString(c.TwilioAccountSID), "PARTNERD_TWILIO_ACCOUNT_SID",
		"must be AC and 32 hexadecimal digits")
	if c.atTwilio() {
		r.want(twilioToken.MatchString(c.TwilioAuthToken), "PARTNERD_TWILIO_AUTH_TOKEN",
			"must be 32 hexadecimal digits: it verifies status callbacks")
	} else {
		r.want(twilioSecret.MatchString(c.TwilioAuthToken), "PARTNERD_TWILIO_AUTH_TOKEN",
			"is required, and must be letters and digits: it verifies status callbacks")
	}
	r.want(c.TwilioAPIKey == "" || twilioKey.MatchString(c.TwilioAPIKey), "PARTNERD_TWILIO_API_KEY",
		"must be SK and 32 hexadecimal digits")
	r.want((c.TwilioAPIKey == "") == (c.TwilioAPISecret == "") && (c.TwilioAPISecret == "" ||
		twilioSecret.MatchString(c.TwilioAPISecret)),
		"PARTNERD_TWILIO_API_SECRET", "must be letters and digits, set together with PARTNERD_TWILIO_API_KEY")
	r.want(phoneNumber.MatchString(c.TwilioCallerID), "PARTNERD_TWILIO_CALLER_ID", "must be a number like +33123456789")
	r.want(twilioRegion.MatchString(c.TwilioRegion), "PARTNERD_TWILIO_REGION",
		"must be an edge and a region, like dublin.ie1")
	r.want(c.TwilioURL == "" || c.TwilioRegion == "", "PARTNERD_TWILIO_REGION",
		"applies only to Twilio itself: unset it, or unset PARTNERD_TWILIO_URL")
	if c.TwilioURL != "" {
		u, err := url.Parse(c.TwilioURL)
		r.want(err == nil && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" &&
			(u.Scheme == "https" || u.Scheme == "http" && deployment.IsLocal(c.TwilioURL)),
			"PARTNERD_TWILIO_URL", "must be like https://host; http is allowed only on this machine")
	}
}

// atTwilio reports whether calls go to Twilio itself.
func (c *Config) atTwilio() bool {
	u, err := url.Parse(c.TwilioURL)
	return c.TwilioURL == "" || err == nil && strings.HasSuffix(strings.ToLower(u.Hostname()), ".twilio.com")
}

func twilioStandIn(c *Config) (found, unset, do string) {
	if c.atTwilio() {
		return "", "", ""
	}
	return "calls go to " + c.TwilioURL + " and not to Twilio: a stand-in for tests rings no phone, and anyone " +
			"who guesses its auth token can forge status callbacks", "PARTNERD_TWILIO_URL",
		"Unset PARTNERD_TWILIO_URL and set PARTNERD_TWILIO_AUTH_TOKEN to the account's own."
}
