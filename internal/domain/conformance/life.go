package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/clock"
)

// Life creates a sandbox consultation through the API and checks how its events were delivered.
type Life struct {
	BaseURL string // of the service
	// access token of a connected client with money, a verified number, and the scopes to create and read consultations
	Token       string
	Application string // client_id
	Secret      string // client_secret
	HTTP        *http.Client
	Every       time.Duration // polling interval
}

// delivery holds the checked fields of an entry in the delivery log.
type delivery struct {
	Type     string `json:"eventType"`
	Sequence int64  `json:"sequence"`
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
}

// Play adds the result of a consultation that simulated lawyers take to report. It stops when ctx ends.
func (l Life) Play(ctx context.Context, report *Report) {
	now := clock.System{}.Now
	began := now()
	x := Result{Name: "life", Title: "Accepts every event of a consultation on the first attempt", Passed: true}
	if err := l.play(ctx); err != nil {
		x.Passed, x.Fault, x.Why = false, err.Error(), "The delivery log shows the response of your "+
			"endpoint to each attempt."
	}
	x.Took = now().Sub(began)
	report.add(x)
}

func (l Life) play(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"competence": "HOUSING", "subject": "Conformance of a receiver",
		"withdrawalWaiverAcknowledged": true, "externalRef": "conformance"})
	if err != nil {
		return err
	}
	var c struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	if err := l.ask(ctx, http.MethodPost, "/api/v1/consultations", body, http.StatusCreated, &c); err != nil {
		return err
	}
	for c.Status != "COMPLETED" {
		if slices.Contains([]string{"CANCELLED", "EXPIRED"}, c.Status) {
			return fmt.Errorf("consultation %s ended as %s", c.ID, c.Status)
		}
		if err := l.pause(ctx, "consultation "+c.ID+" is "+c.Status); err != nil {
			return err
		}
		if err := l.ask(ctx, http.MethodGet, "/api/v1/consultations/"+c.ID, nil, http.StatusOK, &c); err != nil {
			return err
		}
	}
	for {
		var page struct {
			Items []delivery `json:"items"`
		}
		if err := l.ask(ctx, http.MethodGet,
			"/api/platform/v1/deliveries?limit=100&consultationId="+url.QueryEscape(c.ID), nil, http.StatusOK,
			&page); err != nil {
			return err
		}
		waiting := slices.IndexFunc(page.Items,
			func(d delivery) bool { return d.State == "PENDING" && d.Attempts == 0 })
		if waiting < 0 && slices.ContainsFunc(page.Items,
			func(d delivery) bool { return d.Type == "consultation.completed" }) {
			return judge(page.Items)
		}
		if err := l.pause(ctx, "events of "+c.ID+" are still being delivered"); err != nil {
			return err
		}
	}
}

// judge returns an error that names the deliveries not accepted at the first attempt.
func judge(deliveries []delivery) error {
	slices.SortFunc(deliveries, func(a, b delivery) int { return int(a.Sequence - b.Sequence) })
	var faults []string
	for _, d := range deliveries {
		if d.State != "DELIVERED" || d.Attempts != 1 {
			faults = append(faults, fmt.Sprintf("%s is %s after %d attempts", d.Type, d.State, d.Attempts))
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

func (l Life) pause(ctx context.Context, still string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("timed out: %s", still)
	case <-time.After(l.Every):
		return nil
	}
}

// ask calls the service: the Partner API with the token, the Platform API with the application's credentials.
func (l Life) ask(ctx context.Context, method, path string, body []byte, want int, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(l.BaseURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if strings.HasPrefix(path, "/api/platform/") {
		r.SetBasicAuth(l.Application, l.Secret)
	} else {
		r.Header.Set("Authorization", "Bearer "+l.Token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	resp, err := l.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s %s returned %d: %s", method, path, resp.StatusCode, raw)
	}
	return json.Unmarshal(raw, into)
}
