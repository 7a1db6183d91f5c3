package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/sandbox"
	"partnerd/openapi"
)

// played is a row of the contract's table of scenarios.
type played struct {
	name, events, end string
	pass              time.Duration
}

var scenarioRow = regexp.MustCompile("(?m)^ +\\| `([a-z_]+)` \\| [^|]+ \\| ([a-z_ ]+) \\| ([^|]+) \\| (\\d*) ?\\|$")

func documentedScenarios(t *testing.T) (list []played) {
	t.Helper()
	var names []string
	for _, m := range scenarioRow.FindAllStringSubmatch(string(openapi.Sandbox), -1) {
		seconds, _ := strconv.Atoi(m[4])
		list, names = append(list, played{m[1], m[2], m[3], time.Duration(seconds) * time.Second}), append(names, m[1])
	}
	if !slices.Equal(names, sandbox.Scenarios()) {
		t.Fatalf("the contract has %v, the program %v", names, sandbox.Scenarios())
	}
	return list
}

// H60: every scenario of the contract gives exactly the events and the end in its table, within the stated time. It is
// chosen by externalRef or for the client.
func TestEveryScenarioGoesAsTheContractSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers, withIncidents)
	t.Run("scenarios", func(t *testing.T) { // ends when all have ended
		for i, s := range documentedScenarios(t) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				p := w.partner(t, "CRM "+s.name)
				c := w.client(t, strings.ReplaceAll(s.name, "_", "-"), true, 10_000)
				link := w.link(t, p, c)
				var id string
				if i%2 == 0 {
					id = link.create(t, "externalRef", "scenario:"+s.name+"/CASE-1").ID
				} else {
					w.choose(t, p, c.ID, s.name).is(t, "choose", http.StatusOK, "")
					id = link.create(t).ID
				}
				if s.pass > 0 {
					p.receiver.await(t, id, "matching")
					w.advance(t, p, s.pass)
				}
				p.receiver.awaitAll(t, id, started+" "+s.events)
				var last struct {
					Data struct {
						Status        string
						EndReason     *string
						RefundedCents *int
						DurationSec   *int
					}
				}
				events := p.receiver.Events(id)
				w.must(t, json.Unmarshal(events[len(events)-1].Body, &last))
				got := "`" + last.Data.Status + "`"
				if last.Data.EndReason != nil {
					got += ", `" + *last.Data.EndReason + "`"
				} else if last.Data.RefundedCents != nil {
					got += ", `refundedCents` " + strconv.Itoa(*last.Data.RefundedCents)
				}
				if got != s.end {
					t.Errorf("it ends as %s, the contract says %s", got, s.end)
				}
				if n := w.queryInt(t,
					"SELECT count(*) FROM audit_entries WHERE action = 'consultation.refund' AND subject = $1",
					id); (n == 1) != strings.HasPrefix(s.name, "refunded") {
					t.Errorf("%d refunds are in the audit", n)
				}
				if s.name == "long_call" && (last.Data.DurationSec == nil || *last.Data.DurationSec != 1200) {
					t.Errorf("a call that neither side ends: %s", events[len(events)-1].Body)
				}
			})
		}
	})
	t.Run("cancelled later", w.cancelsLater)
	w.everyStep(t)
}

// cancelsLater cancels a consultation whose callback is due, and one that a lawyer has. No scenario does this.
func (w *world) cancelsLater(t *testing.T) {
	p := w.partner(t, "CRM cancels")
	c := w.client(t, "cancels", true, 10_000)
	s := w.link(t, p, c)
	callback := s.create(t, "externalRef", "scenario:callback_missed").ID
	p.receiver.await(t, callback, "matching")
	w.advance(t, p, 31*time.Minute)
	p.receiver.await(t, callback, "pending_callback")
	s = w.session(p, c, w.getToken(t, p.refreshForm(s.token.RefreshToken)))
	s.cancel(t, callback)
	assigned := s.create(t, "externalRef", "scenario:lawyer_does_not_dial").ID
	p.receiver.await(t, assigned, "assigned")
	s.cancel(t, assigned)
	p.receiver.awaitAll(t, callback, started+" pending_callback cancelled refunded")
	p.receiver.awaitAll(t, assigned, started+" assigned cancelled refunded")
}

// everyStep checks that every row of the state table was taken: a sandbox can reach every outcome of a consultation.
func (w *world) everyStep(t *testing.T) {
	t.Helper()
	for _, s := range consultation.Steps() {
		switch {
		case s.From == "" || s.From == consultation.Draft: // a creation, which takes both rows at the same time
		case s.Trigger == "phone_lost": // by the client, on a page of the account
		case !w.logs.contains(fmt.Sprintf("from=%s to=%s trigger=%s ", s.From, s.To, s.Trigger)):
			t.Errorf("nothing went from %s to %s by %s", s.From, s.To, s.Trigger)
		}
	}
}

// choose sets the scenario for the consultations of a client.
func (w *world) choose(t testing.TB, p *partner, clientID, scenario string) *reply {
	t.Helper()
	return w.send(t, http.MethodPut, "/api/platform/v1/sandbox/clients/"+clientID+"/scenario",
		map[string]any{"scenario": scenario}, "Authorization", p.basic())
}

// TestAChoiceOfAScenarioIsNobodyElses: a choice applies to its application and client only. externalRef takes
// precedence, and an unknown name is rejected.
func TestAChoiceOfAScenarioIsNobodyElses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 10_000), w.client(t, "c2", true, 10_000)
	s, other, same := w.link(t, a, c1), w.link(t, a, c2), w.link(t, b, c1)
	w.choose(t, a, c1.ID, "client_cancels").is(t, "choose", http.StatusOK, "")
	all := started + " assigned call_started call_ended note_available completed"
	a.receiver.awaitAll(t, s.create(t).ID, started+" cancelled refunded")
	a.receiver.awaitAll(t, other.create(t).ID, all)
	b.receiver.awaitAll(t, same.create(t).ID, all)
	a.receiver.awaitAll(t, s.create(t, "externalRef", "scenario:completed").ID, all)
	a.receiver.awaitAll(t, other.create(t, "externalRef", "scenario:client_cancels").ID, started+" cancelled refunded")
	w.choose(t, a, c1.ID, "completed").is(t, "choose none", http.StatusOK, "")
	a.receiver.awaitAll(t, s.create(t).ID, all)

	r := s.tryCreate(t, wish("externalRef", "scenario:no_lawyers"))
	r.is(t, "a scenario that there is not", http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	if !slices.Equal(r.issues(), []string{"externalRef invalid_value"}) {
		t.Errorf("issues: %s", r)
	}
	w.choose(t, a, c1.ID, "no_lawyers").is(t, "choose what there is not", http.StatusUnprocessableEntity,
		"VALIDATION_ERROR")
	w.choose(t, b, c2.ID, "refunded").is(t, "a client of somebody else", http.StatusNotFound, "NOT_FOUND")
}

// TestPaymentsGoAsTheirCentsSay: the cents of a payment choose its outcome.
func TestPaymentsGoAsTheirCentsSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct {
		name             string
		cents, wait, get int64
	}{{"declined", 2001, 0, 0}, {"pending", 2002, 600, 2002}, {"pending-declined", 2003, 600, 0},
		{"late", 2004, 7200, 2004}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := w.partner(t, "CRM "+tt.name)
			c := w.client(t, tt.name, true, 0)
			s := w.link(t, p, c)
			u := s.checkout(t, tt.cents)
			s.decide(t, u, "pay")
			if tt.wait > 0 {
				w.advance(t, p, time.Duration(tt.wait-10)*time.Second)
				s = w.session(p, c, w.getToken(t, p.refreshForm(s.token.RefreshToken)))
				s.hasWallet(t, "before its time", 0, 0)
				w.advance(t, p, 20*time.Second)
			}
			back, _ := s.settled(t, u)
			if want := map[bool]string{true: "success", false: "cancelled"}[tt.get > 0]; !strings.HasSuffix(back,
				"topup="+want) {
				t.Errorf("way back: %s, want %s", back, want)
			}
			s.hasWallet(t, "afterwards", tt.get, 0)
			if tt.get == 0 {
				s.decide(t, s.checkout(t, 2000), "pay")
				eventually(t, "a payment at once", func() bool { return s.wallet(t).BalanceCents == 2000 })
			}
		})
	}
}
