package consultation

import (
	"strings"
	"testing"
	"time"
)

func TestTimers(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { return ptr(noon.Add(d)) }
	base := func(s Status) Consultation {
		return Consultation{Status: s, SearchStartedAt: noon, AssignedAt: ptr(noon)}
	}
	with := func(c Consultation, f func(*Consultation)) Consultation { f(&c); return c }
	for _, tc := range []struct {
		name string
		c    Consultation
		due  time.Duration // after noon; negative for never
		task task
	}{
		{"search", base(Matching), SearchLimit, taskSearchOver},
		{"callback", with(base(PendingCallback), func(c *Consultation) {
			c.CallbackDueAt, c.CallableUntil, c.AlarmedAt = at(time.Hour), at(2*time.Hour), at(0)
		}), time.Hour, taskCallbackOver},
		{"callback due soon",
			with(base(PendingCallback),
				func(c *Consultation) { c.CallbackDueAt, c.CallableUntil = at(3*time.Hour), at(2*time.Hour) }),
			time.Hour, taskAlarm},
		{"callback across the night",
			with(base(PendingCallback),
				func(c *Consultation) { c.CallbackDueAt, c.CallableUntil = at(5*time.Hour), at(2*time.Hour) }),
			2 * time.Hour, taskNextDay},
		{"no dial", base(Assigned), DialDeadline, taskNotDialled},
		{"dialling", with(base(Assigned), func(c *Consultation) { c.DialAttempts, c.LastDialAt = 1, at(time.Minute) }),
			time.Minute + DialLimit, taskDialStuck},
		{"next attempt", with(base(Assigned),
			func(c *Consultation) { c.DialAttempts, c.NextDialAt = 1, at(5*time.Minute) }), 5 * time.Minute, taskDial},
		{"lawyer may choose", with(base(Assigned), func(c *Consultation) {
			c.DialAttempts, c.NextDialAt, c.ChooseBy = 1, at(5*time.Minute), at(time.Minute)
		}), time.Minute, taskNotChosen},
		{"line was busy at the first attempt",
			with(base(Assigned), func(c *Consultation) { c.NextDialAt = at(time.Minute) }), time.Minute, taskDial},
		{"line busy until after the deadline",
			with(base(Assigned), func(c *Consultation) { c.NextDialAt = at(DialDeadline + time.Second) }), DialDeadline,
			taskNotDialled},
		{"in call", with(base(InCall), func(c *Consultation) { c.CallCapAt = at(CallLimit) }), CallLimit, taskCallCap},
		{"line lost",
			with(base(InCall), func(c *Consultation) { c.CallCapAt, c.LineLostAt = at(CallLimit), at(time.Minute) }),
			4 * time.Minute, taskLineLost},
		{"first reminder", with(base(CallEnded), func(c *Consultation) { c.CallEndedAt = at(0) }), time.Hour,
			taskRemind},
		{"second reminder", with(base(CallEnded), func(c *Consultation) { c.CallEndedAt, c.Reminders = at(0), 1 }),
			12 * time.Hour, taskRemind},
		{"last reminder", with(base(CallEnded), func(c *Consultation) { c.CallEndedAt, c.Reminders = at(0), 2 }),
			24 * time.Hour, taskRemind},
		{"the note does not come",
			with(base(CallEnded), func(c *Consultation) { c.CallEndedAt, c.Reminders = at(0), 3 }), NoteLimit,
			taskNoteMissing},
		{"completed", base(Completed), -1, taskNone},
		{"cancelled", base(Cancelled), -1, taskNone},
		{"expired", base(Expired), -1, taskNone},
	} {
		next := nextTimer(tc.c)
		if tc.due < 0 {
			if next != nil {
				t.Errorf("%s: timer at %v, want none", tc.name, next)
			}
			continue
		}
		if next == nil || !next.Equal(noon.Add(tc.due)) {
			t.Errorf("%s: timer at %v, want noon + %v", tc.name, next, tc.due)
			continue
		}
		if got := dueTask(tc.c, next.Add(-time.Microsecond)); got != taskNone {
			t.Errorf("%s: %s a microsecond early", tc.name, got)
		}
		if got := dueTask(tc.c, *next); got != tc.task {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.task)
		}
	}
}

func TestClientIsCalledThreeTimes(t *testing.T) {
	t.Parallel()
	c := Consultation{FirstDialAt: ptr(noon), DialAttempts: 1}
	if at, ok := nextAttempt(c, noon.Add(time.Minute)); !ok || !at.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("second attempt at %v %v", at, ok)
	}
	c.DialAttempts = 2
	if at, ok := nextAttempt(c, noon.Add(6*time.Minute)); !ok || !at.Equal(noon.Add(15*time.Minute)) {
		t.Errorf("third attempt at %v %v", at, ok)
	}
	if at, ok := nextAttempt(c, noon.Add(time.Hour)); !ok || !at.Equal(noon.Add(time.Hour)) {
		t.Errorf("late third attempt at %v %v", at, ok)
	}
	c.LastDialAt = ptr(noon.Add(8 * time.Minute)) // with another lawyer
	if at, ok := nextAttempt(c, noon.Add(9*time.Minute)); !ok || !at.Equal(noon.Add(18*time.Minute)) {
		t.Errorf("third attempt after a late second one at %v %v", at, ok)
	}
	c.EarlierAttempts = 1
	if at, ok := nextAttempt(c, noon); ok {
		t.Errorf("fourth attempt at %v", at)
	}
}

func TestJoinedTimeLeavesOutTheLostLine(t *testing.T) {
	t.Parallel()
	c := Consultation{CallCapAt: ptr(noon.Add(CallLimit))}
	for _, tc := range []struct {
		lost *time.Time
		now  time.Duration
		want int
	}{
		{nil, 0, 0}, {nil, 90 * time.Second, 90}, {nil, time.Hour, 1200}, {nil, -time.Minute, 0},
		{ptr(noon.Add(time.Minute)), 3 * time.Minute, 60},
	} {
		c.LineLostAt = tc.lost
		if got := joinedSec(c, noon.Add(tc.now)); got != tc.want {
			t.Errorf("at %v lost %v: %d, want %d", tc.now, tc.lost, got, tc.want)
		}
	}
}

func TestCallbacksOvertakeAsTheyComeNear(t *testing.T) {
	t.Parallel()
	old := Consultation{ID: "old", Status: Matching, SearchStartedAt: noon.Add(-20 * time.Minute)}
	far := Consultation{ID: "far", Status: PendingCallback, SearchStartedAt: noon.Add(-10 * time.Minute),
		CallbackDueAt: ptr(noon.Add(13 * time.Hour))}
	near := Consultation{ID: "near", Status: PendingCallback, SearchStartedAt: noon.Add(-5 * time.Minute),
		CallbackDueAt: ptr(noon.Add(time.Hour))}
	refused := Consultation{ID: "refused", Status: Matching, SearchStartedAt: noon.Add(-16 * time.Minute)}
	work := []searching{{far, 0}, {old, 0}, {near, 0}, {refused, 1}}
	byAge(work, noon)
	if got := work[0].ID + work[1].ID + work[2].ID + work[3].ID; got != "nearrefusedoldfar" {
		t.Errorf("order %s", got)
	}
}

func TestTextLengthsCountCodePoints(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		subject, description, ref string
		want                      string
	}{
		{"éàü", "", "", ""},
		{strings.Repeat("😀", 200), strings.Repeat("é", 2000), strings.Repeat("x", 100), ""},
		{"ab", "", "", "subject too_short"},
		{strings.Repeat("é", 201), "", "", "subject too_long"},
		{"abc", strings.Repeat("é", 2001), "", "description too_long"},
		{"abc", "", strings.Repeat("é", 101), "externalRef too_long"},
	} {
		got := ""
		for _, i := range checkTexts(tc.subject, tc.description, tc.ref) {
			got += i.Path + " " + i.Code
		}
		if got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// A published text never changes: consultations hold its digest as evidence.
func TestPublishedWaiverTextsAreCompleteAndUnchanged(t *testing.T) {
	t.Parallel()
	published := map[string]string{
		"2026-11": "0557f785004ff677f971abe82061b360eea74eb725ae346e50f7cfd8996bff48",
		"2026-12": "25697e53f6d8daf6143bf207ae0438fd55aea3da33e719b55875f8db23adfc23",
	}
	if published[WaiverVersion] == "" {
		t.Errorf("the digest of version %s is not on record", WaiverVersion)
	}
	for version, want := range published {
		for _, lang := range []string{"fr", "en"} {
			if text, ok := WaiverText(version, lang); !ok || len(text) < 100 {
				t.Errorf("waiver text %s in %s: %d bytes", version, lang, len(text))
			}
		}
		if d, err := waiverDigest(version); err != nil || d.String() != want {
			t.Errorf("digest of %s is %s (%v), want %s", version, d, err, want)
		}
	}
	if _, ok := WaiverText("1999-01", "fr"); ok {
		t.Error("an unknown version has a text")
	}
}

// A client who withdrew during the call owes no more than the share that was delivered.
func TestWithdrawalRefundIsInProportion(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]int64{0: 2000, 1: 1999, 60: 1900, 601: 999, 1199: 2, 1200: 0, 1300: 0} {
		c := Consultation{Status: Completed, Price: 2000, DurationSec: &seconds}
		if got := WithdrawalRefund(c, Withdrawal{Status: InCall}); int64(got) != want {
			t.Errorf("after %d s: %d, want %d", seconds, got, want)
		}
		if got := WithdrawalRefund(c, Withdrawal{Status: Matching}); got != 0 {
			t.Errorf("declared before the call: %d", got)
		}
	}
}

// What a client reads on the page is what the state machine does: how long a consultation can be cancelled, and when
// the next step is due.
func TestWhatTheClientMayCountOn(t *testing.T) {
	t.Parallel()
	due := noon.Add(CallbackGuarantee)
	for _, s := range Statuses() {
		c := ready(s, onCancel)
		c.CallbackDueAt = &due
		_, _, err := advance(c, onCancel, noon)
		if s.Cancellable() != (err == nil) {
			t.Errorf("%s: cancellable %t, and the machine says %v", s, s.Cancellable(), err)
		}
		want := map[Status]time.Time{Matching: noon.Add(SearchLimit), PendingCallback: due}[s]
		if got := c.Deadline(); (got == nil) != want.IsZero() || got != nil && !got.Equal(want) {
			t.Errorf("%s: deadline %v, want %v", s, got, want)
		}
	}
}
