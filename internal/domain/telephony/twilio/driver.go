package twilio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	api "github.com/twilio/twilio-go/rest/api/v2010"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Config says how to reach the provider, and how the provider reaches this program.
type Config struct {
	AccountSID string
	AuthToken  string // signs callbacks; also authenticates requests unless there is an API key
	APIKey     string
	APISecret  string
	CallerID   string // E.164: the number shown to people
	// "edge.region", such as dublin.ie1: where the provider handles calls; empty for the United States
	Region  string
	URL     string            // of the API, instead of the provider's; empty for the provider's
	BaseURL string            // public base URL of this program
	Service string            // name of the service in the prompts
	Tracer  *telemetry.Tracer // traces requests to the provider; nil for none

	base *url.URL
}

// edge and mixer return the two parts of the region.
func (c Config) edge() string {
	edge, _, _ := strings.Cut(c.Region, ".")
	return edge
}

func (c Config) mixer() string {
	_, region, _ := strings.Cut(c.Region, ".")
	return region
}

// Driver is a [telephony.Provider] for Twilio and for providers with the same protocol.
type Driver struct {
	db        *postgres.DB
	transport http.RoundTripper
	api       *api.ApiService // without tracing
	cfg       Config
	log       *slog.Logger
	callbacks *prometheus.CounterVec
	deliver   telephony.Deliver
}

var _ telephony.Provider = (*Driver)(nil)

// New creates the driver, which passes the provider's events to deliver.
func New(db *postgres.DB, cfg Config, deliver telephony.Deliver, log *slog.Logger) (*Driver, error) {
	if cfg.URL != "" {
		var err error
		if cfg.base, err = url.Parse(cfg.URL); err != nil {
			return nil, fmt.Errorf("address of the telephony provider: %w", err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &Driver{db: db, transport: transport, api: newAPI(cfg, transport), cfg: cfg, log: log,
		callbacks: newCallbacks(), deliver: deliver}, nil
}

// Limits of a leg's total duration, which the provider enforces in any case. The conversation is limited by the
// conference.
const (
	lawyerLimit = telephony.MaxDuration + 10*time.Minute
	clientLimit = telephony.MaxDuration + 2*time.Minute
)

const (
	// ringSlack is how much the provider adds to the ring timeout.
	ringSlack = 5 * time.Second
	// settling is how long a new call may take to appear in the provider's list and in its first callback.
	settling = 8 * time.Second
	// skew is how far the provider's clock may be behind.
	skew = 10 * time.Second
)

var errDoubt = errors.New("it is not known yet whether the leg was dialled")

// PlaceLeg implements [telephony.Adapter]. The provider knows no command IDs, so a leg that may have been dialled is
// looked up first. It is dialled again only if it appears neither in a callback nor in the list of calls.
func (d *Driver) PlaceLeg(ctx context.Context, cmd telephony.PlaceLeg) error {
	l, err := d.begin(ctx, cmd)
	if err != nil || l.SID != "" || l.Status != "" || l.HangUp {
		return err
	}
	if err := d.replace(ctx, l); err != nil {
		return err
	}
	if l.TriedAt != nil {
		found, err := d.find(ctx, l, cmd.To)
		if err != nil {
			return err
		}
		if found != "" {
			return d.adopt(ctx, l, found)
		}
		if d.db.Read().Now.Before(l.TriedAt.Add(settling)) {
			return errDoubt
		}
	}
	return d.dial(ctx, l, cmd)
}

func (d *Driver) begin(ctx context.Context, cmd telephony.PlaceLeg) (l leg, err error) {
	err = d.db.InTx(ctx, func(tx postgres.Tx) error {
		l, err = begin(ctx, tx, cmd)
		return err
	})
	return l, err
}

// replace ends earlier legs of the same side, which may still be up after a machine answered or no one pressed 1.
func (d *Driver) replace(ctx context.Context, l leg) error {
	legs, err := legsOf(ctx, d.db.Read(), l.CallID)
	if err != nil {
		return err
	}
	old := func(o leg) bool { return o.Role == l.Role && o.CommandID != l.CommandID && o.EndedAt == nil }
	if !slices.ContainsFunc(legs, old) {
		return nil
	}
	return d.endLegs(ctx, l.CallID, old)
}

// endLegs ends the chosen legs. A leg whose call is not known yet ends at its first callback.
func (d *Driver) endLegs(ctx context.Context, callID string, chosen func(leg) bool) error {
	var sids []string
	_, err := d.change(ctx, callID, func(_ postgres.Tx, legs []leg) {
		sids = nil
		for i := range legs {
			if !chosen(legs[i]) {
				continue
			}
			legs[i].HangUp = true
			if legs[i].SID != "" && legs[i].EndedAt == nil {
				sids = append(sids, legs[i].SID)
			}
		}
	})
	for _, sid := range sids {
		err = errors.Join(err, d.hangUp(ctx, sid))
	}
	return err
}

func (d *Driver) dial(ctx context.Context, l leg, cmd telephony.PlaceLeg) error {
	document, err := d.entry(cmd.CommandID).String()
	if err != nil {
		return err
	}
	life := clientLimit
	if cmd.Role == telephony.Lawyer {
		life = lawyerLimit
	}
	p := (&api.CreateCallParams{}).SetTo(cmd.To).SetFrom(d.cfg.CallerID).SetTwiml(document).
		SetTimeout(int(max(cmd.Timeout-ringSlack, ringSlack) / time.Second)).SetTimeLimit(int(life / time.Second)).
		SetStatusCallback(d.callback(l.CommandID, kindStatus)).SetStatusCallbackMethod("POST").
		SetStatusCallbackEvent([]string{"initiated", "ringing", "answered", "completed"})
	if cmd.MachineDetection {
		p.SetMachineDetection("Enable").SetAsyncAmd("true").
			SetAsyncAmdStatusCallback(d.callback(l.CommandID, kindMachine)).SetAsyncAmdStatusCallbackMethod("POST")
	}
	var over bool
	if _, err := d.change(ctx, l.CallID, func(tx postgres.Tx, legs []leg) {
		if l := named(legs, l.CommandID); l != nil {
			l.TriedAt, over = &tx.Now, l.HangUp
		}
	}); err != nil || over {
		return err
	}
	call, err := d.apiFor(ctx).CreateCall(p)
	if err = reduceError(err); err == nil {
		return d.adopt(ctx, l, value(call.Sid))
	}
	var f fault
	errors.As(err, &f)
	news, failed := d.change(ctx, l.CallID, func(tx postgres.Tx, legs []leg) {
		l := named(legs, l.CommandID)
		switch status := refused[f.code]; {
		case l == nil:
		case status != "":
			l.learn(fact{status: status, at: tx.Now})
		case hadNoEffect(err):
			l.TriedAt = nil
		}
	})
	if failed != nil || refused[f.code] == "" {
		return errors.Join(err, failed)
	}
	return d.tell(ctx, news)
}

// find looks for a call whose creation request got no response. Such a call is between the same two numbers, was
// created after that request, and belongs to no other leg. The list is not filtered by start time, because calls that
// have not started have none.
func (d *Driver) find(ctx context.Context, l leg, to string) (sid string, err error) {
	page, err := d.apiFor(ctx).PageCall(
		(&api.ListCallParams{}).SetTo(to).SetFrom(d.cfg.CallerID).SetPageSize(50), "", "")
	if err = reduceError(err); err != nil {
		return "", err
	}
	var sids []string
	for _, c := range page.Calls {
		created, err := time.Parse(time.RFC1123Z, value(c.DateCreated))
		if err == nil && !created.Before(l.TriedAt.Add(-skew)) && isSID(value(c.Sid)) {
			sids = append(sids, value(c.Sid))
		}
	}
	taken, err := known(ctx, d.db.Read(), sids)
	if err != nil {
		return "", err
	}
	for _, s := range slices.Backward(sids) { // the list is newest first
		if !taken[s] {
			return s, nil
		}
	}
	return "", nil
}

// adopt stores which call of the provider a leg is.
func (d *Driver) adopt(ctx context.Context, l leg, sid string) error {
	if !isSID(sid) {
		return errNoAnswer
	}
	var drop bool
	_, err := d.change(ctx, l.CallID, func(_ postgres.Tx, legs []leg) {
		if l := named(legs, l.CommandID); l != nil {
			if l.SID == "" {
				l.SID = sid
			}
			drop = l.HangUp || l.SID != sid
		}
	})
	if err == nil && drop {
		err = d.hangUp(ctx, sid)
	}
	return err
}

// Play implements [telephony.Adapter]. The provider speaks and listens in one step, so the prompt is stored for
// [Driver.Collect]. A leg that is already joined is not asked.
func (d *Driver) Play(ctx context.Context, cmd telephony.Play) error {
	_, err := d.change(ctx, cmd.CallID, func(_ postgres.Tx, legs []leg) {
		if l := current(legs, cmd.Role); l != nil && !talks(legs, *l) {
			l.Prompt, l.Language, l.Application = cmd.Prompt, cmd.Language, cmd.Application
		}
	})
	return err
}

// Collect implements [telephony.Adapter]. It plays the prompt of [Driver.Play] and waits for digits.
func (d *Driver) Collect(ctx context.Context, cmd telephony.Collect) error {
	legs, err := legsOf(ctx, d.db.Read(), cmd.CallID)
	if err != nil {
		return err
	}
	l := current(legs, cmd.Role)
	if l == nil || l.PressedAt != nil || talks(legs, *l) {
		return nil
	}
	return d.redirect(ctx, *l, d.question(*l, cmd.Digits, cmd.Timeout))
}

// Bridge implements [telephony.Adapter]. It sends a leg into the conference, where the other leg is or will be.
func (d *Driver) Bridge(ctx context.Context, cmd telephony.Bridge) error {
	if cmd.Role == telephony.Lawyer {
		return d.bridgeLawyer(ctx, cmd)
	}
	var l *leg
	_, err := d.change(ctx, cmd.CallID, func(tx postgres.Tx, legs []leg) {
		if l = current(legs, telephony.Client); l == nil || l.JoinedAt != nil {
			l = nil
			return
		}
		if l.BridgedAt == nil {
			l.BridgedAt = &tx.Now
		}
		l.LimitSec = int(cmd.MaxDuration / time.Second)
	})
	if err != nil || l == nil {
		return err
	}
	return d.redirect(ctx, *l, response{Dial: d.room(cmd.CallID, l.CommandID, telephony.Client, cmd.MaxDuration)})
}

// bridgeLawyer sends a lawyer's leg into the conference. It is marked as entered only once the provider has accepted
// the request, because a lawyer's leg counts as entered without a callback.
func (d *Driver) bridgeLawyer(ctx context.Context, cmd telephony.Bridge) error {
	legs, err := legsOf(ctx, d.db.Read(), cmd.CallID)
	if err != nil {
		return err
	}
	l := current(legs, telephony.Lawyer)
	if l == nil || l.BridgedAt != nil || talks(legs, *l) {
		return nil
	}
	if err := d.redirect(ctx, *l, response{Dial: d.room(cmd.CallID, l.CommandID, telephony.Lawyer, 0)}); err != nil {
		return err
	}
	news, err := d.change(ctx, cmd.CallID, func(tx postgres.Tx, legs []leg) {
		if l := named(legs, l.CommandID); l.BridgedAt == nil {
			l.BridgedAt = &tx.Now
		}
	})
	return errors.Join(err, d.tell(ctx, news))
}

// redirect gives an answered leg new instructions. If the leg has ended in the meantime, it delivers that.
func (d *Driver) redirect(ctx context.Context, l leg, r response) error {
	document, err := r.String()
	if err != nil {
		return err
	}
	_, err = d.apiFor(ctx).UpdateCall(l.SID, (&api.UpdateCallParams{}).SetTwiml(document))
	err = reduceError(err)
	if !hasCode(err, codeNotInProgress) {
		return err
	}
	return errors.Join(err, d.refresh(ctx, l.CallID))
}

// Hangup implements [telephony.Adapter].
func (d *Driver) Hangup(ctx context.Context, cmd telephony.Hangup) error {
	return d.endLegs(ctx, cmd.CallID, func(leg) bool { return true })
}

// hangUp ends one leg, ringing or answered.
func (d *Driver) hangUp(ctx context.Context, sid string) error {
	_, err := d.apiFor(ctx).UpdateCall(sid, (&api.UpdateCallParams{}).SetStatus(statusCompleted))
	if err = reduceError(err); hasCode(err, codeNotInProgress) || hasCode(err, codeNotFound) {
		return nil // already over
	}
	return err
}

func named(legs []leg, commandID string) *leg {
	for i := range legs {
		if legs[i].CommandID == commandID {
			return &legs[i]
		}
	}
	return nil
}

// current returns the leg of a role that can receive instructions.
func current(legs []leg, role telephony.Role) *leg {
	for i := range slices.Backward(legs) {
		if l := &legs[i]; l.Role == role && l.SID != "" && l.EndedAt == nil {
			return l
		}
	}
	return nil
}
