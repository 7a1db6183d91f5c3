package app

import (
	"net/url"
	"regexp"
	"strings"

	"partnerd/internal/deployment"
	"partnerd/internal/sandbox"
	"partnerd/internal/telephony"
	"partnerd/internal/telephony/twilio"
)

var (
	twilioAccount = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	twilioKey     = regexp.MustCompile(`^SK[0-9a-f]{32}$`)
	twilioToken   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	twilioSecret  = regexp.MustCompile(`^[0-9A-Za-z]+$`)
	twilioRegion  = regexp.MustCompile(`^([a-z]+(-[a-z]+)*\.[a-z]{2}[0-9]{1,2})?$`)
	phoneNumber   = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
)

// checkTelephony reports what is wrong with the settings of phone calls, without repeating a secret.
func (c *Config) checkTelephony(r *refusals) {
	if c.Telephony == "" {
		return
	}
	r.want(!c.Sandbox(), "PARTNERD_TELEPHONY", "a sandbox simulates calls and has no provider")
	r.want(twilioAccount.MatchString(c.TwilioAccountSID), "PARTNERD_TWILIO_ACCOUNT_SID", "must be AC and 32 hexadecimal digits")
	if c.atTwilio() {
		r.want(twilioToken.MatchString(c.TwilioAuthToken), "PARTNERD_TWILIO_AUTH_TOKEN", "must be 32 hexadecimal digits: status callbacks are checked with it")
	} else {
		r.want(twilioSecret.MatchString(c.TwilioAuthToken), "PARTNERD_TWILIO_AUTH_TOKEN", "is needed, of letters and digits: status callbacks are checked with it")
	}
	r.want(c.TwilioAPIKey == "" || twilioKey.MatchString(c.TwilioAPIKey), "PARTNERD_TWILIO_API_KEY", "must be SK and 32 hexadecimal digits")
	r.want((c.TwilioAPIKey == "") == (c.TwilioAPISecret == "") && (c.TwilioAPISecret == "" || twilioSecret.MatchString(c.TwilioAPISecret)),
		"PARTNERD_TWILIO_API_SECRET", "goes with PARTNERD_TWILIO_API_KEY, and is of letters and digits")
	r.want(phoneNumber.MatchString(c.TwilioCallerID), "PARTNERD_TWILIO_CALLER_ID", "must be a number like +33123456789")
	r.want(twilioRegion.MatchString(c.TwilioRegion), "PARTNERD_TWILIO_REGION", "must be an edge and a region, like dublin.ie1")
	r.want(c.TwilioURL == "" || c.TwilioRegion == "", "PARTNERD_TWILIO_REGION", "is of Twilio itself, and not of PARTNERD_TWILIO_URL")
	if c.TwilioURL != "" {
		u, err := url.Parse(c.TwilioURL)
		r.want(err == nil && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" &&
			(u.Scheme == "https" || u.Scheme == "http" && deployment.IsLocal(c.TwilioURL)),
			"PARTNERD_TWILIO_URL", "must be like https://host; http is for this machine only")
	}
}

// atTwilio tells whether calls go to Twilio itself.
func (c *Config) atTwilio() bool {
	u, err := url.Parse(c.TwilioURL)
	return c.TwilioURL == "" || err == nil && strings.HasSuffix(strings.ToLower(u.Hostname()), ".twilio.com")
}

// standIn tells what stands in for the telephony provider, or returns nothing when calls go to the provider itself.
func (c *Config) standIn() string {
	if c.Sandbox() || c.Telephony == "" || c.atTwilio() {
		return ""
	}
	return "calls go to " + c.TwilioURL + " and not to Twilio: a stand-in for tests rings no phone, and anyone who guesses its auth token can forge status callbacks"
}

// telephony is the provider of phone calls: the simulated one in a sandbox, in live the configured one or none.
func (a *App) telephony() (telephony.Adapter, error) {
	c := &a.Config
	switch {
	case c.Sandbox():
		a.SimulatedCalls = sandbox.NewCalls(a.DB, nil, a.Logger)
		return a.SimulatedCalls, nil
	case c.Telephony == "":
		return telephony.None{}, nil
	}
	var err error
	a.Twilio, err = twilio.New(a.DB, twilio.Config{AccountSID: c.TwilioAccountSID, AuthToken: c.TwilioAuthToken, APIKey: c.TwilioAPIKey, APISecret: c.TwilioAPISecret,
		CallerID: c.TwilioCallerID, Region: c.TwilioRegion, URL: c.TwilioURL, BaseURL: strings.TrimRight(c.BaseURL, "/"),
		Service: c.ServiceName, Tracer: a.telemetry.Tracer()}, a.Logger)
	if err != nil {
		return nil, err
	}
	a.Metrics.MustRegister(a.Twilio.Collector())
	return a.Twilio, nil
}
