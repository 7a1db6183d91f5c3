package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/domain/webhook"
)

// listenCmd forwards webhooks to a program that the service cannot reach: it polls the list of events and signs them
// itself.
type listenCmd struct {
	Forward           string        `help:"URL that receives the events, like http://localhost:3000/webhooks." required:""`
	WebhookSecretFile []byte        `help:"File with the program's signing secret. Default: generate and print one." type:"filecontent"`
	Every             time.Duration `help:"How often to poll for events." default:"1s"`
}

func (c *listenCmd) Run(ctx context.Context, s *service) error {
	secret := strings.TrimSpace(string(c.WebhookSecretFile))
	if secret == "" {
		secret = "whsec_local_" + strings.ToLower(rand.Text())
		fmt.Println("Signing secret for this run:", secret)
	}
	cursor, skipped, err := c.newest(ctx, s)
	if err != nil {
		return err
	}
	fmt.Printf("%d earlier events skipped. Waiting for events; press Ctrl-C to stop.\n", skipped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
		p, err := read(ctx, s, cursor)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "could not read events, retrying:", err)
			continue
		}
		for _, e := range p.Items {
			c.forward(ctx, secret, e)
		}
		cursor = p.Cursor
	}
}

// newest returns the cursor after the latest event.
func (c *listenCmd) newest(ctx context.Context, s *service) (cursor string, skipped int, err error) {
	for more := true; more; {
		p, err := read(ctx, s, cursor)
		if err != nil {
			return "", 0, err
		}
		cursor, more, skipped = p.Cursor, p.HasMore, skipped+len(p.Items)
	}
	return cursor, skipped, nil
}

func read(ctx context.Context, s *service, after string) (p eventPage, err error) {
	raw, err := s.call(ctx, http.MethodGet, "/events"+query("after", after, "limit", "100"), nil)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(raw, &p)
}

// forward posts an event once. A failure is printed; the service can redeliver the event.
func (c *listenCmd) forward(ctx context.Context, secret string, e event) {
	var body bytes.Buffer
	if err := json.Compact(&body, e.Payload); err != nil {
		fmt.Fprintln(os.Stderr, e.ID, err)
		return
	}
	began := time.Now()
	status, err := post(ctx, c.Forward, secret, e, body.Bytes())
	answer := strconv.Itoa(status)
	if err != nil {
		answer = err.Error()
	}
	fmt.Println(time.Now().Format(time.TimeOnly), e.Type, e.ID, "→", answer, time.Since(began).Round(time.Millisecond))
}

func post(ctx context.Context, url, secret string, e event, body []byte) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // the service's time limit for endpoints
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header = webhook.Headers(webhook.Type(e.Type), e.ID, e.Sequence, 1, e.Test)
	r.Header.Set(webhook.HeaderSignature, webhook.Sign(secret, time.Now(), body))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
