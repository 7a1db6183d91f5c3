package consultation

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomWalksKeepTheRecordWhole fires random triggers at random times. After every step it checks what the schema
// and the money rely on.
func TestRandomWalksKeepTheRecordWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		c, _, err := advance(Consultation{ID: "con_1", Price: Price}, onCreate, now)
		if err != nil {
			t.Fatal(err)
		}
		held, back, captured := 0, 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "seconds")) * time.Second)
			on := rapid.SampledFrom(triggers()).Draw(t, "trigger")
			try := c
			switch on { // what the service sets before a step
			case onAccept:
				try.LawyerID = "law_1"
			case onCallOver:
				try.DurationSec = ptr(rapid.IntRange(-1, 1201).Draw(t, "duration"))
			case onNoUsefulCall:
				try.EndReason = rapid.SampledFrom([]Reason{"", WrongPerson, TooShort}).Draw(t, "reason")
			case onRefund:
				if c.RefundedAt == nil {
					try.Refunded = Price
				}
			case onClientUnreached:
				try.DialAttempts = rapid.IntRange(0, 3).Draw(t, "attempts")
			}
			before := c
			next, st, err := advance(try, on, now)
			if err != nil {
				continue
			}
			c = next
			switch st.money {
			case holdMoney:
				held++
			case releaseMoney:
				back++
			case captureMoney:
				captured++
			case noMoney, refundMoney:
			}
			check(t, before, c, held, back, captured)
		}
	})
}

func check(t *rapid.T, before, c Consultation, held, back, captured int) {
	is := func(name string, ok bool) {
		if !ok {
			t.Fatalf("%s does not hold in %s (from %s): %+v", name, c.Status, before.Status, c)
		}
	}
	after := map[Status]bool{InCall: true, CallEnded: true, Completed: true}
	is("one hold", held == 1)
	is("money goes one way, at the end", back+captured <= 1 && (back+captured == 1) == c.Status.Terminal())
	is("captured exactly when completed", (captured == 1) == (c.Status == Completed))
	is("a lawyer has it", !(after[c.Status] || c.Status == Assigned) || c.LawyerID != "")
	is("nobody has it while it is searched", c.Status != Matching && c.Status != PendingCallback ||
		c.LawyerID == "" && c.AssignedAt == nil && c.DialAttempts == 0)
	is("a callback has its time", c.Status != PendingCallback || c.CallbackDueAt != nil)
	is("a call has begun", !after[c.Status] || c.CallStartedAt != nil)
	is("no cancellation after the call has begun", c.Status != Cancelled || c.CallStartedAt == nil)
	is("ends have their times", (c.CompletedAt != nil) == (c.Status == Completed) &&
		(c.CancelledAt != nil) == (c.Status == Cancelled) && (c.ExpiredAt != nil) == (c.Status == Expired))
	is("duration comes with the end of the call", (c.CallEndedAt != nil) == (c.DurationSec != nil))
	is("refunds have their time", (c.RefundedAt != nil) == (c.Refunded != 0))
	is("open ones have a timer, ended ones none", (nextTimer(c) != nil) == !c.Status.Terminal())
	is("terminal is final", !before.Status.Terminal() || c.Status == before.Status)
}
