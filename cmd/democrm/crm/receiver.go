package crm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Event is a verified webhook.
type Event struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"createdAt"`
	Data      struct {
		ID          string  `json:"id"`
		Status      string  `json:"status"`
		Competence  string  `json:"competence"`
		ExternalRef *string `json:"externalRef"`
		DurationSec *int    `json:"durationSec"`
	} `json:"data"`

	// The signature does not cover headers. Use them for logs, and for ordering only where nothing depends on it.
	Delivery string      `json:"-"` // X-Service-Delivery
	Sequence int         `json:"-"` // X-Service-Sequence: the order within the consultation
	Header   http.Header `json:"-"`
	Body     []byte      `json:"-"`
	Arrived  time.Time   `json:"-"`
}

// Receiver handles webhooks. It is safe for concurrent use.
type Receiver struct {
	Secret string
	Now    func() time.Time

	mu       sync.Mutex
	seen     map[string]bool // IDs of events, which are signed
	events   []Event
	refused  []error
	arrivals chan struct{} // closed and replaced whenever something arrives
}

// NewReceiver returns a receiver for one signing secret.
func NewReceiver(secret string) *Receiver {
	return &Receiver{Secret: secret, Now: time.Now, seen: map[string]bool{}, arrivals: make(chan struct{})}
}

// ServeHTTP verifies and stores the event, and responds immediately. Put long-running work in a queue.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err == nil {
		err = Verify(r.Secret, req.Header.Get("X-Service-Signature"), body, r.Now())
	}
	var e Event
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refused = append(r.refused, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	e.Delivery, e.Header, e.Body, e.Arrived = req.Header.Get("X-Service-Delivery"), req.Header.Clone(), body, r.Now()
	e.Sequence, _ = strconv.Atoi(req.Header.Get("X-Service-Sequence"))
	if r.seen[e.ID] {
		return
	}
	r.seen[e.ID] = true
	r.events = append(r.events, e)
	close(r.arrivals)
	r.arrivals = make(chan struct{})
}

// Events returns the events of a consultation, in the order of their sequence.
func (r *Receiver) Events(consultationID string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Event
	for _, e := range r.events {
		if e.Data.ID == consultationID {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Event) int { return a.Sequence - b.Sequence })
	return out
}

// Refused returns why requests were rejected.
func (r *Receiver) Refused() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// Wait returns the event of that type once it and all earlier ones have arrived.
func (r *Receiver) Wait(ctx context.Context, consultationID, eventType string) (Event, error) {
	for {
		r.mu.Lock()
		arrivals := r.arrivals
		r.mu.Unlock()
		for i, e := range r.Events(consultationID) {
			if e.Type == eventType && e.Sequence == i+1 {
				return e, nil
			}
		}
		select {
		case <-ctx.Done():
			var have []string
			for _, e := range r.Events(consultationID) {
				have = append(have, fmt.Sprint(e.Sequence, " ", e.Type))
			}
			return Event{}, fmt.Errorf("no %s for %s; arrived: %v: %w", eventType, consultationID, have, ctx.Err())
		case <-arrivals:
		}
	}
}
