package twilio

import (
	"context"
	"fmt"
	"slices"
	"time"

	api "github.com/twilio/twilio-go/rest/api/v2010"

	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Report implements [telephony.Adapter]. It queries what has not been reported and returns all events known then.
func (d *Driver) Report(ctx context.Context, callID string) ([]telephony.Event, error) {
	all, _, err := d.ask(ctx, callID)
	return all, err
}

// refresh delivers the new events that [Driver.Report] finds.
func (d *Driver) refresh(ctx context.Context, callID string) error {
	_, news, err := d.ask(ctx, callID)
	if err != nil {
		return err
	}
	return d.tell(ctx, news)
}

func (d *Driver) ask(ctx context.Context, callID string) (all, news []telephony.Event, err error) {
	legs, err := legsOf(ctx, d.db.Read(), callID)
	if err != nil {
		return nil, nil, err
	}
	now := d.db.Read().Now
	facts := map[string][]fact{}
	for _, l := range legs {
		if l.SID != "" && l.EndedAt == nil {
			f, err := d.fetch(ctx, l.SID, now)
			if err != nil {
				return nil, nil, err
			}
			facts[l.CommandID] = append(facts[l.CommandID], f)
			l.learn(f)
		}
		if l.uncertain() {
			f, err := d.fetchPresence(ctx, l, now)
			if err != nil {
				return nil, nil, err
			}
			facts[l.CommandID] = append(facts[l.CommandID], f)
		}
	}
	news, err = d.change(ctx, callID, func(_ postgres.Tx, legs []leg) {
		for i := range legs {
			for _, f := range facts[legs[i].CommandID] {
				legs[i].learn(f)
			}
		}
		all = events(callID, legs)
	})
	return all, news, err
}

// fetch queries one call resource.
func (d *Driver) fetch(ctx context.Context, sid string, now time.Time) (fact, error) {
	c, err := d.apiFor(ctx).FetchCall(sid, nil)
	if err = reduceError(err); hasCode(err, codeNotFound) {
		return fact{status: statusFailed, at: now}, nil
	}
	if err != nil {
		return fact{}, err
	}
	f := fact{status: value(c.Status), at: now, answeredBy: value(c.AnsweredBy)}
	if f.status == statusInProgress || f.status == statusCompleted {
		started := parseTime(value(c.StartTime), now)
		f.startedAt = &started
	}
	if final(f.status) {
		f.at = parseTime(value(c.EndTime), now)
	}
	return f, nil
}

// fetchPresence queries whether a client's leg is or was in the conference. The provider lists only current
// participants. An ended leg that was sent there at least [entering] before its end counts as having been in it from
// then on.
func (d *Driver) fetchPresence(ctx context.Context, l leg, now time.Time) (fact, error) {
	rooms, err := d.apiFor(ctx).PageConference((&api.ListConferenceParams{}).SetFriendlyName(l.CallID).SetPageSize(20),
		"", "")
	if err = reduceError(err); err != nil {
		return fact{}, err
	}
	begun := false
	for _, room := range rooms.Conferences {
		begun = begun || value(room.Status) != "init"
		if value(room.Status) != statusInProgress || l.EndedAt != nil {
			continue
		}
		inside, err := d.apiFor(ctx).PageParticipant(value(room.Sid),
			(&api.ListParticipantParams{}).SetPageSize(20), "", "")
		if err = reduceError(err); err != nil {
			return fact{}, err
		}
		for _, p := range inside.Participants {
			if value(p.CallSid) == l.SID {
				return fact{joined: true, at: parseTime(value(p.DateCreated), now)}, nil
			}
		}
	}
	switch {
	case l.EndedAt == nil:
		return fact{}, nil
	case begun && l.EndedAt.Sub(*l.BridgedAt) >= entering:
		return fact{joined: true, at: *l.BridgedAt}, nil
	default:
		return fact{apart: true}, nil
	}
}

// entering is more time than a leg needs to enter a conference.
const entering = 2 * time.Second

// change lets f change the known facts of a call's legs and returns the events that are new to the service. Concurrent
// changes wait.
func (d *Driver) change(ctx context.Context, callID string,
	f func(tx postgres.Tx, legs []leg),
) (news []telephony.Event, err error) {
	err = d.db.InTx(ctx, func(tx postgres.Tx) error {
		legs, err := lockLegs(ctx, tx, callID)
		if err != nil {
			return err
		}
		before, was := slices.Clone(legs), events(callID, legs)
		f(tx, legs)
		for i := range legs {
			if legs[i] == before[i] {
				continue
			}
			if err := save(ctx, tx, legs[i]); err != nil {
				return err
			}
		}
		news = fresh(was, events(callID, legs))
		return nil
	})
	return news, err
}

// tell delivers events to the service. If delivery fails, [Driver.Report] finds the event again.
func (d *Driver) tell(ctx context.Context, news []telephony.Event) error {
	for _, e := range news {
		if err := d.deliver(ctx, e); err != nil {
			return fmt.Errorf("event %s of call %s: %w", e.Kind, e.CallID, err)
		}
	}
	return nil
}
