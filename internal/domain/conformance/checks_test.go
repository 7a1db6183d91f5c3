package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/webhook"
)

const secret = "whsec_test_of_conformance"

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, runRow{})
}

// receiver is a correct endpoint, apart from the faults that its fields introduce.
type receiver struct {
	verify  func(header, previous string, body []byte) bool
	judge   func(e event, again bool) int // returns the status
	delay   time.Duration
	refusal int // status for requests that fail verification
	mu      sync.Mutex
	seen    map[string]bool
	busy    int
	max     int // concurrent events, 0 for no limit
}

type event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data map[string]any  `json:"data"`
	New  json.RawMessage `json:"unheardOf"`
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil || !r.verify(req.Header.Get(webhook.HeaderSignature),
		req.Header.Get(webhook.HeaderSignaturePrevious), body) {
		w.WriteHeader(r.refusal)
		return
	}
	var e event
	_ = json.Unmarshal(body, &e) // was verified
	r.mu.Lock()
	again := r.seen[e.ID]
	r.seen[e.ID] = true
	r.busy++
	crowded := r.max > 0 && r.busy > r.max
	r.mu.Unlock()
	time.Sleep(r.delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	if crowded {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(r.judge(e, again))
}

func right() *receiver {
	return &receiver{refusal: http.StatusBadRequest, seen: map[string]bool{},
		judge: func(event, bool) int { return http.StatusNoContent },
		verify: func(header, previous string, body []byte) bool {
			return webhook.Verify(secret, header, body, time.Now()) == nil ||
				webhook.Verify(secret, previous, body, time.Now()) == nil
		}}
}

// examine posts to a real server on this machine.
func examine(t *testing.T, h http.Handler) Report {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return Examine(t.Context(), Direct(server.URL, &http.Client{Timeout: 5 * time.Second}), secret)
}

func TestAReceiverThatDoesEverythingPasses(t *testing.T) {
	t.Parallel()
	r := examine(t, right())
	for _, x := range r.Results {
		if !x.Passed {
			t.Errorf("%s: %s", x.Name, x.Fault)
		}
	}
	if !r.Passed || len(r.Results) != len(Checks) {
		t.Errorf("passed %v with %d of %d checks", r.Passed, len(r.Results), len(Checks))
	}
}

// Partners copy this receiver.
func TestTheDemonstrationPasses(t *testing.T) {
	t.Parallel()
	if r := examine(t, crm.NewReceiver(secret)); !r.Passed {
		t.Errorf("faults %q", r.Faults())
	}
}

// Each fault is found by the check meant for it, and by no other required check.
func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*receiver)
		want  []string
	}{
		"verifies nothing": {func(r *receiver) { r.verify = func(string, string, []byte) bool { return true } },
			[]string{"unsigned", "malformed-signature", "wrong-secret", "altered-body", "old", "future"}},
		"takes what has no signature": {func(r *receiver) {
			verify := r.verify
			r.verify = func(h, p string, b []byte) bool { return h == "" || verify(h, p, b) }
		}, []string{"unsigned"}},
		"takes what it cannot read": {func(r *receiver) {
			verify := r.verify
			r.verify = func(h, p string, b []byte) bool {
				return h != "" && !strings.HasPrefix(h, "t=1") || verify(h, p, b)
			}
		}, []string{"malformed-signature"}},
		"fails at what it cannot read": {func(r *receiver) { r.refusal = http.StatusInternalServerError },
			[]string{"unsigned", "malformed-signature", "wrong-secret", "altered-body", "old", "future"}},
		"does not compare": {func(r *receiver) {
			verify := r.verify
			r.verify = func(h, p string, b []byte) bool { return signedNow(h) || verify(h, p, b) }
		}, []string{"wrong-secret", "altered-body"}},
		"looks at no time": {func(r *receiver) {
			r.verify = func(h, p string, b []byte) bool { return atAnyTime(h, b) || atAnyTime(p, b) }
		},
			[]string{"old", "future"}},
		"is too strict about time": {func(r *receiver) {
			verify := r.verify
			r.verify = func(h, p string, b []byte) bool { return verify(h, p, b) && (signedNow(h) || signedNow(p)) }
		}, []string{"recent"}},
		"writes the body again": {func(r *receiver) {
			verify := r.verify
			r.verify = func(h, p string, b []byte) bool {
				var compact bytes.Buffer
				_ = json.Compact(&compact, b) // what is not JSON does not verify
				return verify(h, p, compact.Bytes())
			}
		}, []string{"raw-body"}},
		"refuses duplicates": {func(r *receiver) {
			r.judge = func(_ event, again bool) int { return status(!again, http.StatusConflict) }
		}, []string{"duplicate"}},
		"refuses another order": {func(r *receiver) {
			started := map[any]bool{}
			r.judge = func(e event, again bool) int {
				if e.Type == string(webhook.CallStarted) {
					started[e.Data["id"]] = true
				}
				return status(again || e.Type != string(webhook.Assigned) || !started[e.Data["id"]],
					http.StatusUnprocessableEntity)
			}
		}, []string{"duplicate", "out-of-order"}},
		"refuses new types": {func(r *receiver) {
			r.judge = func(e event, _ bool) int {
				return status(slices.Contains(webhook.Types, webhook.Type(e.Type)), http.StatusBadRequest)
			}
		}, []string{"unknown-type"}},
		"refuses new fields": {func(r *receiver) {
			r.judge = func(e event, _ bool) int { return status(e.New == nil, http.StatusBadRequest) }
		}, []string{"unknown-field"}},
		"knows one type": {func(r *receiver) {
			r.judge = func(e event, _ bool) int {
				return status(e.Type != string(webhook.Expired), http.StatusNotFound)
			}
		}, []string{"every-type"}},
		"is gone for what it does not know": {func(r *receiver) {
			r.judge = func(e event, _ bool) int {
				return status(slices.Contains(webhook.Types, webhook.Type(e.Type)), http.StatusGone)
			}
		}, []string{"unknown-type", "not-gone"}},
		"redirects": {func(r *receiver) {
			r.judge = func(e event, _ bool) int {
				return status(e.Type != string(webhook.Refunded), http.StatusMovedPermanently)
			}
		}, []string{"every-type"}},
		"takes one at a time": {func(r *receiver) { r.max, r.delay = 3, 30*time.Millisecond },
			[]string{"side-by-side"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := right()
			c.spoil(r)
			got := examine(t, r)
			if faults := got.Faults(); !slices.Equal(faults, c.want) || got.Passed {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
		})
	}
}

func status(ok bool, otherwise int) int {
	if ok {
		return http.StatusOK
	}
	return otherwise
}

// signedNow reports whether a signature has the right form and is less than a minute old.
func signedNow(header string) bool {
	at, ok := timeOf(header)
	return ok && errors.Is(webhook.Verify(secret, header, nil, at), webhook.ErrSignatureMismatch) &&
		time.Since(at).Abs() < time.Minute
}

func timeOf(header string) (time.Time, bool) {
	seconds, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	var n int64
	if err := json.Unmarshal([]byte(seconds), &n); err != nil {
		return time.Time{}, false
	}
	return time.Unix(n, 0), true
}

func atAnyTime(header string, body []byte) bool {
	at, ok := timeOf(header)
	return ok && webhook.Verify(secret, header, body, at) == nil
}

// An endpoint that never responds gets one request; the checks of a slow endpoint stop when the time is over.
func TestSlowReceivers(t *testing.T) {
	t.Parallel()
	stalled := Examine(t.Context(), func(context.Context, webhook.Post) webhook.Answer {
		return webhook.Answer{Fault: "timeout", Took: 5 * time.Second}
	}, secret)
	if stalled.Passed || stalled.Results[0].Fault != "got no response (timeout), expected 2xx" ||
		stalled.Results[1].Fault != nothingTaken {
		t.Errorf("stalled: %+v", stalled.Results[:2])
	}

	ctx, cancel := context.WithCancel(t.Context())
	posts := 0
	late := Examine(ctx, func(context.Context, webhook.Post) webhook.Answer {
		if posts++; posts == 3 {
			cancel()
		}
		return webhook.Answer{Status: 204, Took: 3 * time.Second}
	}, secret)
	if end := late.Results[len(late.Results)-1]; late.Passed || end.Fault != tooLong {
		t.Errorf("late: %+v", end)
	}

	slow := Examine(t.Context(), func(_ context.Context, p webhook.Post) webhook.Answer {
		h := func(name string) string { return p.Signatures.Get(name) }
		a := webhook.Answer{Status: 400, Took: 2 * time.Second}
		if right().verify(h(webhook.HeaderSignature), h(webhook.HeaderSignaturePrevious), p.Body) {
			a.Status = 200
		}
		return a
	}, secret)
	if i := slices.IndexFunc(slow.Results, func(x Result) bool { return x.Name == "fast" }); !slow.Passed ||
		slow.Results[i].Passed {
		t.Errorf("slow: passed %v, %+v", slow.Passed, slow.Results[i])
	}
}

func TestSheets(t *testing.T) {
	t.Parallel()
	r := Report{At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Results: []Result{
		{Name: "signed", Title: "Accepts a signed event", Passed: true, Took: 12 * time.Millisecond},
		{Name: "unsigned", Title: "Rejects <b>", Fault: "got 204, expected 4xx", Why: "Because & so."},
		{Name: "fast", Title: "Responds within one second", Fault: "1 of 2 responses took longer", Why: "Stalls.",
			Advice: true},
	}}
	for format, want := range map[string][]string{
		Text: {"ok      Accepts a signed event (12 ms)", "FAILED  Rejects <b>", "got 204, expected 4xx",
			"FAILED: 1 of 3 checks; recommendations: 1"},
		HTML: {"<h1>FAILED: 1 of 3 checks", "Rejects &lt;b&gt;", `<li class="advice">`},
		JUnit: {`tests="3" failures="1" skipped="1"`,
			`<failure message="Rejects &lt;b&gt;: got 204, expected 4xx">Because &amp; so.</failure>`},
	} {
		var b bytes.Buffer
		if err := r.Write(&b, format, "https://crm.example/hooks"); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s lacks %q:\n%s", format, w, b.String())
			}
		}
		if format == JUnit {
			if err := xml.Unmarshal(b.Bytes(), &junitSuite{}); err != nil {
				t.Error(err)
			}
		}
	}
	if err := r.Write(io.Discard, "pdf", ""); err == nil {
		t.Error("wrote a format that there is not")
	}
}
