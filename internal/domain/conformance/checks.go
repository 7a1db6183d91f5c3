package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/domain/webhook"
)

// Check is a requirement for an endpoint.
type Check struct {
	Name   string // stable, for machines
	Title  string
	Why    string // consequence of failing
	Advice bool   // recommended only: an endpoint that fails it works, but not well

	run func(context.Context, *run) (fault string)
}

// Checks lists all checks in the order in which they run.
var Checks = []Check{
	{Name: "signed", Title: "Takes a signed event", Why: "Without it nothing arrives.",
		run: func(ctx context.Context, r *run) string {
			return r.takes(ctx, r.signed(r.event(webhook.Created)))
		}},
	{Name: "every-type", Title: "Takes each of the twelve types",
		Why: "What is refused is sent again, up to twelve times.", run: func(ctx context.Context, r *run) string {
			for _, t := range webhook.Types {
				if fault := r.takes(ctx, r.signed(r.event(t))); fault != "" {
					return string(t) + ": " + fault
				}
			}
			return ""
		}},
	{Name: "unsigned", Title: "Refuses what is not signed", Why: "Whoever finds your URL can make up events.",
		run: func(ctx context.Context, r *run) string {
			return r.refuses(ctx, r.event(webhook.Completed), http.Header{})
		}},
	{Name: "malformed-signature", Title: "Refuses a signature that is none",
		Why: "Text that cannot be read must not count as signed, nor end in an error of the server.",
		run: func(ctx context.Context, r *run) string {
			for _, s := range []string{
				"t=,v1=", "v1=" + strings.Repeat("0", 64), fmt.Sprintf("t=%d,v1=zz", r.now().Unix()),
			} {
				if fault := r.refuses(ctx, r.event(webhook.Completed), header(s)); fault != "" {
					return s + ": " + fault
				}
			}
			return ""
		}},
	{Name: "wrong-secret", Title: "Refuses what another secret signed",
		Why: "The signature is looked at, and not compared.", run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Completed)
			return r.refuses(ctx, p, header(webhook.Sign(r.secret+"x", r.now(), p.Body)))
		}},
	{Name: "altered-body", Title: "Refuses a body that was changed", Why: "The signature must be that of the body.",
		run: func(ctx context.Context, r *run) string {
			p := r.signed(r.event(webhook.Created))
			p.Body = bytes.Replace(p.Body, []byte(`"HOUSING"`), []byte(`"FAMILY"`), 1)
			return r.refuses(ctx, p, p.Signatures)
		}},
	{Name: "recent", Title: "Takes a signature that is 299 seconds old",
		Why: "Clocks differ, and networks take their time: 300 s are agreed.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			p.Signatures = header(webhook.Sign(r.secret, r.now().Add(time.Second-webhook.Tolerance), p.Body))
			return r.takes(ctx, p)
		}},
	{Name: "old", Title: "Refuses a signature that is 301 seconds old",
		Why: "Who recorded an event can play it again for ever.", run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			return r.refuses(ctx, p,
				header(webhook.Sign(r.secret, r.now().Add(-webhook.Tolerance-time.Second), p.Body)))
		}},
	{Name: "future", Title: "Refuses a signature from 302 seconds ahead",
		Why: "What is signed for later can be played again until then.", run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			return r.refuses(ctx, p,
				header(webhook.Sign(r.secret, r.now().Add(webhook.Tolerance+2*time.Second), p.Body)))
		}},
	{Name: "raw-body", Title: "Verifies the bytes that came",
		Why: "A body that is read as JSON and written again has another signature.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Created)
			var wide bytes.Buffer
			if err := json.Indent(&wide, p.Body, " ", "\t"); err != nil {
				return err.Error()
			}
			p.Body = bytes.Replace(wide.Bytes(), []byte(`"test"`), []byte(`"d\u00e9j\u00e0 <vu> 1\/2"`), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "duplicate", Title: "Takes an event a second time",
		Why: "Deliveries happen at least once: an answer that was lost is followed by the same event.",
		run: func(ctx context.Context, r *run) string {
			p := r.signed(r.event(webhook.Assigned))
			if fault := r.takes(ctx, p); fault != "" {
				return fault
			}
			p.Attempt = 2
			if fault := r.takes(ctx, p); fault != "" {
				return "the same again: " + fault
			}
			return ""
		}},
	{Name: "out-of-order", Title: "Takes events in another order",
		Why: "An event that is tried again is passed by those after it.",
		run: func(ctx context.Context, r *run) string {
			late, early := r.event(webhook.CallStarted), r.event(webhook.Assigned)
			late.Sequence, early.Sequence = 5, 4
			if fault := r.takes(ctx, r.signed(late)); fault != "" {
				return "the fifth: " + fault
			}
			if fault := r.takes(ctx, r.signed(early)); fault != "" {
				return "the fourth after the fifth: " + fault
			}
			return ""
		}},
	{Name: "unknown-type", Title: "Takes a type that it does not know", Why: "New types come without notice.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Created)
			p.Type = "consultation.unheard_of"
			p.Body = bytes.Replace(p.Body, []byte(webhook.Created), []byte(p.Type), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "unknown-field", Title: "Takes fields that it does not know", Why: "New fields come without notice.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Completed)
			p.Body = bytes.Replace(p.Body, []byte(`"data":{`),
				[]byte(`"unheardOf":{"a":[1]},"data":{"unheardOf":true,`), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "side-by-side", Title: "Takes ten events at once", Why: "Ten deliveries are under way at a time.",
		run: func(ctx context.Context, r *run) string {
			faults := make([]string, 10)
			var all sync.WaitGroup
			for i := range faults {
				p := r.signed(r.event(webhook.Matching))
				all.Go(func() { faults[i] = r.takes(ctx, p) })
			}
			all.Wait()
			for _, fault := range faults {
				if fault != "" {
					return fault
				}
			}
			return ""
		}},
	{Name: "not-gone", Title: "Never answers 410",
		Why: "410 disables the endpoint at once: it is for a URL that is no more.",
		run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Status == http.StatusGone }); n > 0 {
				return fmt.Sprintf("%d of %d answers were 410", n, len(r.answers))
			}
			return ""
		}},
	{Name: "in-time", Title: "Answers within five seconds",
		Why: "Whatever takes longer counts as failed, and is sent again.", run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Status == 0 }); n > 0 {
				return fmt.Sprintf("%d of %d posts had no complete answer", n, len(r.answers))
			}
			return ""
		}},
	{Name: "fast", Title: "Answers within a second",
		Why: "Endpoints that stall get their events one at a time. Answer first, work afterwards.", Advice: true,
		run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Took > time.Second }); n > 0 {
				return fmt.Sprintf("%d of %d answers took longer", n, len(r.answers))
			}
			return ""
		}},
	{Name: "previous-secret", Title: "Takes the signature of the secret before", Why: "For 24 hours after a rotation " +
		"X-Service-Signature-Previous is by the secret that your servers may still have.", Advice: true,
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Created)
			p.Signatures = header(webhook.Sign(r.secret+"new", r.now(), p.Body))
			p.Signatures.Set(webhook.HeaderSignaturePrevious, webhook.Sign(r.secret, r.now(), p.Body))
			return r.takes(ctx, p)
		}},
}

// Poster sends one POST request, with its own timeout.
type Poster func(context.Context, webhook.Post) webhook.Answer

// run is one run of the checks.
type run struct {
	post         Poster
	secret       string
	now          func() time.Time // the receiver compares times with its own clock
	ids          id.Minter
	consultation string
	sequence     int64

	mu      sync.Mutex
	answers []webhook.Answer
}

// event returns the next event about the consultation of the run, without a signature.
func (r *run) event(t webhook.Type) webhook.Post {
	r.sequence++
	body, err := webhook.Sample(r.ids.New(id.Event), webhook.Subject{ConsultationID: r.consultation,
		ClientID: r.ids.New(id.Client), ExternalRef: "test"}, t, clock.System{}.Now())
	if err != nil {
		panic(err) // cannot happen: the types are constants
	}
	return webhook.Post{Type: t, Delivery: r.ids.New(id.Delivery), Sequence: r.sequence, Attempt: 1, Body: body}
}

func (r *run) signed(p webhook.Post) webhook.Post {
	p.Signatures = header(webhook.Sign(r.secret, r.now(), p.Body))
	return p
}

func header(signature string) http.Header {
	h := http.Header{}
	h.Set(webhook.HeaderSignature, signature)
	return h
}

func (r *run) send(ctx context.Context, p webhook.Post) webhook.Answer {
	a := r.post(ctx, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, a)
	return a
}

// takes describes the failure if p does not get a 2xx response.
func (r *run) takes(ctx context.Context, p webhook.Post) string {
	if a := r.send(ctx, p); a.Status/100 != 2 {
		return "answered with " + describe(a) + " instead of 2xx"
	}
	return ""
}

// refuses describes the failure if p, with these signatures, does not get a 4xx response.
func (r *run) refuses(ctx context.Context, p webhook.Post, signatures http.Header) string {
	p.Signatures = signatures
	if a := r.send(ctx, p); a.Status/100 != 4 {
		return "answered with " + describe(a) + " instead of 4xx"
	}
	return ""
}

func describe(a webhook.Answer) string {
	if a.Status == 0 {
		return "nothing (" + a.Fault + ")"
	}
	return fmt.Sprint(a.Status)
}

func (r *run) count(is func(webhook.Answer) bool) (n int) {
	for _, a := range r.answers {
		if is(a) {
			n++
		}
	}
	return n
}
