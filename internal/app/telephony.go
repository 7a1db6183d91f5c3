package app

import (
	"context"
	"strings"

	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/telephony/twilio"
)

// providers maps the names in PARTNERD_TELEPHONY to functions that open the provider. The provider reports call events
// to deliver.
var providers = map[string]func(a *App, deliver telephony.Deliver) (telephony.Provider, error){"twilio": openTwilio}

// telephony opens the telephony provider: the simulated one in a sandbox, and the configured one or none in a live
// deployment.
func (a *App) telephony() (telephony.Adapter, error) {
	if a.Config.Sandbox() {
		a.SimulatedCalls = sandbox.NewCalls(a.DB, nil, a.Logger)
		return a.SimulatedCalls, nil
	}
	open, ok := providers[a.Config.Telephony]
	if !ok {
		return telephony.None{}, nil
	}
	var err error
	if a.Calls, err = open(a, a.callEvent); err != nil {
		return nil, err
	}
	a.Metrics.MustRegister(a.Calls.Collector())
	return a.Calls, nil
}

// callEvent handles a call event. It comes from a provider's status callback, from a query about a silent call, or from
// a sandbox's simulated calls. No call is placed before the consultations service exists.
func (a *App) callEvent(ctx context.Context, e telephony.Event) error {
	return a.Consultations.HandleCallEvent(ctx, e)
}

func openTwilio(a *App, deliver telephony.Deliver) (telephony.Provider, error) {
	c := &a.Config
	return twilio.New(a.DB, twilio.Config{AccountSID: c.TwilioAccountSID, AuthToken: c.TwilioAuthToken,
		APIKey: c.TwilioAPIKey, APISecret: c.TwilioAPISecret, CallerID: c.TwilioCallerID, Region: c.TwilioRegion,
		URL: c.TwilioURL, BaseURL: strings.TrimRight(c.BaseURL, "/"), Service: c.ServiceName,
		Tracer: a.telemetry.Tracer()}, deliver,
		a.Logger)
}
