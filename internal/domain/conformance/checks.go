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
	{Name: "signed", Title: "Accepts a signed event", Why: "Otherwise no event is delivered.",
		run: func(ctx context.Context, r *run) string {
			return r.takes(ctx, r.signed(r.event(webhook.Created)))
		}},
	{Name: "every-type", Title: "Accepts each of the twelve event types",
		Why: "A rejected event is retried, up to twelve attempts.", run: func(ctx context.Context, r *run) string {
			for _, t := range webhook.Types {
				if fault := r.takes(ctx, r.signed(r.event(t))); fault != "" {
					return string(t) + ": " + fault
				}
			}
			return ""
		}},
	{Name: "unsigned", Title: "Rejects an unsigned event", Why: "Anyone who finds your URL could forge events.",
		run: func(ctx context.Context, r *run) string {
			return r.refuses(ctx, r.event(webhook.Completed), http.Header{})
		}},
	{Name: "malformed-signature", Title: "Rejects a malformed signature",
		Why: "A header that cannot be parsed must not count as signed, nor cause a server error.",
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
	{Name: "wrong-secret", Title: "Rejects a signature made with another secret",
		Why: "The signature is parsed but not compared.", run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Completed)
			return r.refuses(ctx, p, header(webhook.Sign(r.secret+"x", r.now(), p.Body)))
		}},
	{Name: "altered-body", Title: "Rejects a modified body", Why: "The signature must match the body.",
		run: func(ctx context.Context, r *run) string {
			p := r.signed(r.event(webhook.Created))
			p.Body = bytes.Replace(p.Body, []byte(`"HOUSING"`), []byte(`"FAMILY"`), 1)
			return r.refuses(ctx, p, p.Signatures)
		}},
	{Name: "recent", Title: "Accepts a signature that is 299 seconds old",
		Why: "Clocks drift and networks are slow, so the tolerance is 300 seconds.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			p.Signatures = header(webhook.Sign(r.secret, r.now().Add(time.Second-webhook.Tolerance), p.Body))
			return r.takes(ctx, p)
		}},
	{Name: "old", Title: "Rejects a signature that is 301 seconds old",
		Why: "A recorded event could be replayed indefinitely.", run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			return r.refuses(ctx, p,
				header(webhook.Sign(r.secret, r.now().Add(-webhook.Tolerance-time.Second), p.Body)))
		}},
	{Name: "future", Title: "Rejects a signature dated 302 seconds ahead",
		Why: "A signature dated in the future could be replayed until then.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Matching)
			return r.refuses(ctx, p,
				header(webhook.Sign(r.secret, r.now().Add(webhook.Tolerance+2*time.Second), p.Body)))
		}},
	{Name: "raw-body", Title: "Verifies the raw body",
		Why: "A body that was parsed and serialised again no longer matches its signature.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Created)
			var wide bytes.Buffer
			if err := json.Indent(&wide, p.Body, " ", "\t"); err != nil {
				return err.Error()
			}
			p.Body = bytes.Replace(wide.Bytes(), []byte(`"test"`), []byte(`"d\u00e9j\u00e0 <vu> 1\/2"`), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "duplicate", Title: "Accepts a duplicate event",
		Why: "Delivery is at least once. If your response is lost, the same event is sent again.",
		run: func(ctx context.Context, r *run) string {
			p := r.signed(r.event(webhook.Assigned))
			if fault := r.takes(ctx, p); fault != "" {
				return fault
			}
			p.Attempt = 2
			if fault := r.takes(ctx, p); fault != "" {
				return "second delivery: " + fault
			}
			return ""
		}},
	{Name: "out-of-order", Title: "Accepts events out of order",
		Why: "Later events overtake an event that is being retried.",
		run: func(ctx context.Context, r *run) string {
			late, early := r.event(webhook.CallStarted), r.event(webhook.Assigned)
			late.Sequence, early.Sequence = 5, 4
			if fault := r.takes(ctx, r.signed(late)); fault != "" {
				return "sequence 5: " + fault
			}
			if fault := r.takes(ctx, r.signed(early)); fault != "" {
				return "sequence 4 after 5: " + fault
			}
			return ""
		}},
	{Name: "unknown-type", Title: "Accepts an unknown event type", Why: "New event types are added without notice.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Created)
			p.Type = "consultation.unheard_of"
			p.Body = bytes.Replace(p.Body, []byte(webhook.Created), []byte(p.Type), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "unknown-field", Title: "Accepts unknown fields", Why: "New fields are added without notice.",
		run: func(ctx context.Context, r *run) string {
			p := r.event(webhook.Completed)
			p.Body = bytes.Replace(p.Body, []byte(`"data":{`),
				[]byte(`"unheardOf":{"a":[1]},"data":{"unheardOf":true,`), 1)
			return r.takes(ctx, r.signed(p))
		}},
	{Name: "side-by-side", Title: "Accepts ten events at the same time",
		Why: "Up to ten deliveries run at the same time.",
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
	{Name: "not-gone", Title: "Never responds with 410",
		Why: "410 disables the endpoint immediately. It is meant for a URL that no longer exists.",
		run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Status == http.StatusGone }); n > 0 {
				return fmt.Sprintf("%d of %d responses were 410", n, len(r.answers))
			}
			return ""
		}},
	{Name: "in-time", Title: "Responds within five seconds",
		Why: "A slower response counts as a failure, and the event is retried.",
		run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Status == 0 }); n > 0 {
				return fmt.Sprintf("%d of %d requests got no complete response", n, len(r.answers))
			}
			return ""
		}},
	{Name: "fast", Title: "Responds within one second",
		Why: "Slow endpoints receive events one at a time. Respond first, then process the event.", Advice: true,
		run: func(_ context.Context, r *run) string {
			if n := r.count(func(a webhook.Answer) bool { return a.Took > time.Second }); n > 0 {
				return fmt.Sprintf("%d of %d responses took longer", n, len(r.answers))
			}
			return ""
		}},
	{Name: "previous-secret", Title: "Accepts a signature made with the previous secret", Why: "For 24 hours after " +
		"a rotation, X-Service-Signature-Previous uses the secret that your servers may still have.", Advice: true,
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
		return "got " + describe(a) + ", expected 2xx"
	}
	return ""
}

// refuses describes the failure if p, with these signatures, does not get a 4xx response.
func (r *run) refuses(ctx context.Context, p webhook.Post, signatures http.Header) string {
	p.Signatures = signatures
	if a := r.send(ctx, p); a.Status/100 != 4 {
		return "got " + describe(a) + ", expected 4xx"
	}
	return ""
}

func describe(a webhook.Answer) string {
	if a.Status == 0 {
		return "no response (" + a.Fault + ")"
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
