package twilio

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twilio/twilio-go/client"

	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Kinds of callbacks, the last part of their paths.
const (
	kindStatus     = "status"     // of a leg: initiated, ringing, answered, completed
	kindMachine    = "machine"    // result of machine detection
	kindHeld       = "held"       // an answered leg asks what to do
	kindDigits     = "digits"     // pressed digits
	kindConference = "conference" // who entered
)

// CallbackPath is the path prefix of callbacks. The ID of the command that placed the leg and the kind follow it.
const CallbackPath = "/api/telephony/twilio/"

func (d *Driver) callback(commandID, kind string) string {
	return d.cfg.BaseURL + CallbackPath + commandID + "/" + kind
}

// Path implements [telephony.Inbound].
func (d *Driver) Path() string { return CallbackPath }

var (
	callSID    = regexp.MustCompile(`^CA[0-9a-f]{32}$`)
	identifier = regexp.MustCompile(`^[0-9A-Za-z_]{1,64}$`)
)

func isSID(s string) bool { return callSID.MatchString(s) }

// Handle implements [telephony.Inbound].
func (d *Driver) Handle(ctx context.Context, n telephony.Notice) (reply telephony.Reply, err error) {
	document, err := d.handle(ctx, n)
	result := "taken"
	switch {
	case errors.Is(err, telephony.ErrSignature):
		result = "refused"
	case errors.Is(err, telephony.ErrMalformed):
		result = "malformed"
	case errors.Is(err, telephony.ErrUnknown):
		result = "unknown"
	case err != nil:
		result = "failed"
	}
	kind := n.Kind
	if _, ok := readers[kind]; !ok {
		kind = "other"
	}
	d.callbacks.WithLabelValues(kind, result).Inc()
	if document != "" {
		reply = telephony.Reply{ContentType: "text/xml; charset=utf-8", Body: document}
	}
	return reply, err
}

func (d *Driver) handle(ctx context.Context, n telephony.Notice) (string, error) {
	validator := client.NewRequestValidator(d.cfg.AuthToken)
	if !validator.ValidateBody(d.cfg.BaseURL+n.Address, n.Body, n.Header.Get("X-Twilio-Signature")) {
		return "", telephony.ErrSignature
	}
	form, err := url.ParseQuery(string(n.Body))
	read, ok := readers[n.Kind]
	sid := form.Get("CallSid")
	if err != nil || !ok || !isSID(sid) || form.Get("AccountSid") != d.cfg.AccountSID {
		return "", telephony.ErrMalformed
	}
	if !identifier.MatchString(n.CommandID) {
		return "", telephony.ErrUnknown
	}
	callID, err := callOf(ctx, d.db.Read(), n.CommandID)
	if err != nil {
		return "", err
	}
	if callID == "" {
		return "", telephony.ErrUnknown
	}
	if err := d.take(ctx, callID, n, sid, func(now time.Time) fact { return read(form, now) }); err != nil {
		return "", err
	}
	if n.Kind == kindHeld || n.Kind == kindDigits {
		return waiting().String()
	}
	return "", nil
}

// readers parse the fact about a leg from a callback, by kind.
var readers = map[string]func(form url.Values, now time.Time) fact{
	kindStatus: func(form url.Values, now time.Time) fact {
		return fact{status: form.Get("CallStatus"), at: parseTime(form.Get("Timestamp"), now)}
	},
	kindMachine: func(form url.Values, now time.Time) fact { return fact{answeredBy: form.Get("AnsweredBy"), at: now} },
	kindHeld:    func(_ url.Values, now time.Time) fact { return fact{status: statusInProgress, at: now} },
	kindDigits: func(form url.Values, now time.Time) fact {
		digits := form.Get("Digits")
		if !digit.MatchString(digits) {
			digits = ""
		}
		return fact{status: statusInProgress, digits: &digits, at: now}
	},
	kindConference: func(form url.Values, now time.Time) fact {
		return fact{joined: form.Get("StatusCallbackEvent") == "participant-join",
			at: parseTime(form.Get("Timestamp"), now)}
	},
}

var digit = regexp.MustCompile(`^[0-9*#]{0,16}$`)

// take records a fact about a leg and delivers its events. It hangs up a second call of a leg. It also hangs up a leg
// that was to end before its call was known.
func (d *Driver) take(ctx context.Context, callID string, n telephony.Notice, sid string,
	say func(now time.Time) fact,
) error {
	var drop, ask bool
	news, err := d.change(ctx, callID, func(tx postgres.Tx, legs []leg) {
		drop, ask = false, false
		l := named(legs, n.CommandID)
		if n.Kind == kindConference { // one path for all participants
			l = whose(legs, sid)
		}
		if l == nil {
			return
		}
		f := say(tx.Now)
		if l.SID == "" {
			l.SID = sid
			drop = l.HangUp
		}
		if l.SID != sid {
			drop = true
		} else {
			l.learn(f)
			ask = l.EndedAt != nil && slices.ContainsFunc(legs, leg.uncertain)
		}
		drop = drop && !final(f.status)
	})
	if err != nil {
		return err
	}
	if drop {
		err = d.hangUp(ctx, sid)
	}
	if ask {
		err = errors.Join(err, d.refresh(ctx, callID))
	}
	return errors.Join(err, d.tell(ctx, news))
}

func whose(legs []leg, sid string) *leg {
	for i := range legs {
		if legs[i].SID == sid {
			return &legs[i]
		}
	}
	return nil
}

func newCallbacks() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_telephony_callbacks_total",
		Help: "Notices of the telephony provider, by kind and by what came of them: refused are those with a " +
			"wrong signature."}, []string{"kind", "result"})
	for kind := range readers {
		c.WithLabelValues(kind, "taken")
		c.WithLabelValues(kind, "refused")
		c.WithLabelValues(kind, "failed")
	}
	return c
}

// Collector exposes the number of callbacks.
func (d *Driver) Collector() prometheus.Collector { return d.callbacks }
