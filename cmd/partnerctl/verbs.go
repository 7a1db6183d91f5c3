package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

type rotateCmd struct {
	ClientSecret  rotateClientCmd  `cmd:"" help:"Rotate the client secret and print the new one once."`
	WebhookSecret rotateWebhookCmd `cmd:"" help:"Rotate the webhook signing secret and print the new one once."`
}

// previous says what becomes of a previous secret that still works.
type previous struct {
	EndPrevious  bool `help:"End a previous secret that still works." xor:"previous"`
	KeepPrevious bool `help:"End the current secret immediately and keep the previous one." xor:"previous"`
}

type rotateClientCmd struct {
	Overlap  *time.Duration `help:"How long the current secret keeps working, like 24h; 0s ends it. Default: 24h; 0s with --keep-previous."`
	previous `embed:""`
}

func (c *rotateClientCmd) Run(ctx context.Context, s *service) error {
	overlap := 24 * time.Hour
	if c.KeepPrevious {
		overlap = 0
	}
	if c.Overlap != nil {
		overlap = *c.Overlap
	}
	return tell(ctx, s, http.MethodPost, "/application/rotate-secret",
		map[string]any{"overlapSeconds": int64(overlap / time.Second),
			"endPrevious": c.EndPrevious, "keepPrevious": c.KeepPrevious}, showSecret("client secret"))
}

type rotateWebhookCmd struct {
	previous `embed:""`
}

func (c *rotateWebhookCmd) Run(ctx context.Context, s *service) error {
	choice := query("endPrevious", ifSet(c.EndPrevious), "keepPrevious", ifSet(c.KeepPrevious))
	return tell(ctx, s, http.MethodPost, "/endpoint/rotate-secret"+choice, nil, showSecret("webhook secret"))
}

func ifSet(b bool) string {
	if b {
		return "true"
	}
	return ""
}

type rotated struct {
	Secret              string    `json:"secret"`
	PreviousSecretUntil time.Time `json:"previousSecretUntil"`
}

func showSecret(name string) func(rotated) []string {
	return func(r rotated) []string {
		return []string{row("new "+name, r.Secret), row("previous secret works until", r.PreviousSecretUntil), "",
			"Store the new secret now: it is not shown again."}
	}
}

type redeliverCmd struct {
	From   moment `help:"Start of the range: a time like 2026-06-01T08:00:00Z, or a duration ago like 3h." required:""`
	To     moment `help:"End of the range, in the same form. Default: now."`
	All    bool   `help:"Also redeliver events that were delivered. Default: only failed deliveries."`
	AsNew  bool   `help:"Send finished deliveries as new deliveries with new IDs."`
	Cursor string `help:"Cursor printed by an interrupted run with the same range."`
}

// Run asks until the whole range is queued. Without an end in the command line the range ends when it starts.
func (c *redeliverCmd) Run(ctx context.Context, s *service) error {
	to := time.Time(c.To)
	if to.IsZero() {
		to = time.Now()
	}
	body := map[string]any{"from": time.Time(c.From).UTC().Format(time.RFC3339Nano),
		"to": to.UTC().Format(time.RFC3339Nano), "select": map[bool]string{false: "FAILED", true: "ALL"}[c.All],
		"asNew": c.AsNew}
	queued := 0
	for cursor := c.Cursor; ; {
		if cursor != "" {
			body["cursor"] = cursor
		}
		var page struct {
			Count      int     `json:"count"`
			NextCursor *string `json:"nextCursor"`
		}
		if err := s.read(ctx, http.MethodPost, "/redeliveries", body, &page); err != nil {
			if cursor != "" {
				return fmt.Errorf("%w\n%d deliveries were queued. Continue: partnerctl redeliver --from=%s --to=%s --cursor=%s",
					err, queued, body["from"], body["to"], cursor)
			}
			return err
		}
		queued += page.Count
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if s.JSON {
		fmt.Printf("{\"count\":%d}\n", queued)
		return nil
	}
	fmt.Printf("%d %s queued. List them: partnerctl deliveries --state=PENDING\n", queued,
		map[bool]string{true: "delivery is", false: "deliveries are"}[queued == 1])
	return nil
}

// moment is a point in time; a duration is a time ago.
type moment time.Time

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		*m = moment(at)
		return nil
	}
	ago, err := time.ParseDuration(string(text))
	if err != nil || ago < 0 {
		return fmt.Errorf("%q is not a time like 2026-06-01T08:00:00Z or a duration like 3h", text)
	}
	*m = moment(time.Now().Add(-ago))
	return nil
}

type clientsCmd struct {
	List   clientsListCmd   `cmd:"" default:"1" help:"List the test clients, newest last."`
	New    clientsNewCmd    `cmd:"" help:"Create a test client."`
	Delete clientsDeleteCmd `cmd:"" help:"Delete a test client."`
}

type testClient struct {
	ID, Email, Name, Scenario string
	PhoneVerified, Disabled   bool
	CreatedAt                 time.Time
}

func (c testClient) row() string {
	state := map[bool]string{true: "phone verified", false: "no verified phone"}[c.PhoneVerified]
	if c.Disabled {
		state = "disabled"
	}
	return row(c.CreatedAt, c.Name, c.Email, state, c.Scenario, c.ID)
}

var clientColumns = row("CREATED", "NAME", "EMAIL", "STATE", "SCENARIO", "CLIENT")

type clientsListCmd struct{}

func (c *clientsListCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodGet, "/sandbox/clients", nil, func(p page[testClient]) []string {
		lines := []string{clientColumns}
		for _, x := range p.Items {
			lines = append(lines, x.row())
		}
		return lines
	})
}

type clientsNewCmd struct {
	Name         string `arg:"" help:"Name of the client."`
	Phone        bool   `help:"Give the client a verified phone number."`
	BalanceCents int64  `help:"Wallet balance in cents (0 to 200000)." default:"0"`
	TimeZone     string `help:"Time zone, like Europe/Paris. Default: Europe/Paris."`
}

func (c *clientsNewCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPost, "/sandbox/clients", map[string]any{"name": c.Name, "phoneVerified": c.Phone,
		"balanceCents": c.BalanceCents, "timeZone": cmp.Or(c.TimeZone, "Europe/Paris")},
		func(x testClient) []string { return []string{clientColumns, x.row()} })
}

type clientsDeleteCmd struct {
	ID string `arg:"" help:"ID of the client."`
}

func (c *clientsDeleteCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodDelete, "/sandbox/clients/"+url.PathEscape(c.ID), nil,
		func(struct{}) []string { return []string{"The client was deleted."} })
}

type linkCmd struct {
	Client string   `arg:"" help:"ID of the test client."`
	Scopes []string `help:"Scopes to grant, separated by commas. Default: all scopes of the application."`
}

// Run links with the scopes given, or with all that the application may ask for.
func (c *linkCmd) Run(ctx context.Context, s *service) error {
	scopes := c.Scopes
	if len(scopes) == 0 {
		var app struct{ Scopes []string }
		if err := s.read(ctx, http.MethodGet, "/application", nil, &app); err != nil {
			return err
		}
		if scopes = app.Scopes; len(scopes) == 0 {
			return errors.New("the application has no scopes; set them with --scopes")
		}
	}
	return tell(ctx, s, http.MethodPost, "/sandbox/clients/"+url.PathEscape(c.Client)+"/link",
		map[string]any{"scopes": scopes},
		func(t struct {
			AccessToken  string  `json:"access_token"`
			ExpiresIn    int64   `json:"expires_in"`
			Scope        string  `json:"scope"`
			RefreshToken *string `json:"refresh_token"`
		}) []string {
			return []string{row("access_token", t.AccessToken), row("expires_in", fmt.Sprint(t.ExpiresIn, " s")),
				row("scope", t.Scope), row("refresh_token", t.RefreshToken)}
		})
}
