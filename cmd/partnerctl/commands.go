package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type event struct {
	ID             string          `json:"id"`
	Type           string          `json:"type"`
	CreatedAt      time.Time       `json:"createdAt"`
	ConsultationID *string         `json:"consultationId"`
	Sequence       int64           `json:"sequence"`
	Test           bool            `json:"test"`
	Payload        json.RawMessage `json:"payload"`
}

type eventPage struct {
	Items   []event `json:"items"`
	Cursor  string  `json:"cursor"`
	HasMore bool    `json:"hasMore"`
	Gap     bool    `json:"gap"`
}

type delivery struct {
	ID             string    `json:"id"`
	EventID        string    `json:"eventId"`
	EventType      string    `json:"eventType"`
	ConsultationID *string   `json:"consultationId"`
	State          string    `json:"state"`
	Attempts       int       `json:"attempts"`
	NextAttemptAt  *string   `json:"nextAttemptAt"`
	CreatedAt      time.Time `json:"createdAt"`
	AttemptLog     []struct {
		Number       int       `json:"number"`
		StartedAt    time.Time `json:"startedAt"`
		DurationMs   int64     `json:"durationMs"`
		StatusCode   *int      `json:"statusCode"`
		Error        *string   `json:"error"`
		ResponseBody string    `json:"responseBody"`
	} `json:"attemptLog"`
}

type request struct {
	ID         string    `json:"id"`
	At         time.Time `json:"at"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	Status     int       `json:"status"`
	Code       *string   `json:"code"`
	DurationMs int64     `json:"durationMs"`
	Replayed   bool      `json:"replayed"`
	Issues     []struct {
		Path    string `json:"path"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"issues"`
	Body json.RawMessage `json:"body"`
}

// row is a line of the list and of the tail of requests.
func (r request) row() string {
	return row(r.At, r.Status, r.Code, fmt.Sprint(r.DurationMs, " ms"), r.Method+" "+r.Path, r.ID)
}

type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// query builds a query from pairs of name and value, without empty values.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

// newestLast returns the items in the order of all lists here; the API returns these newest first.
func (p page[T]) newestLast() []T {
	slices.Reverse(p.Items)
	return p.Items
}

// more appends how to continue a list.
func (p page[T]) more(lines []string) []string {
	if p.NextCursor == nil {
		return lines
	}
	return append(lines, "", "For older items: --cursor="+*p.NextCursor)
}

type listing struct {
	Limit  int    `help:"Items per page (1 to 100)." default:"20"`
	Cursor string `help:"Cursor printed by the previous page."`
}

type triggerCmd struct {
	Type string `arg:"" help:"Event type, like consultation.completed."`
}

func (c *triggerCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPost, "/endpoint/test", map[string]string{"type": c.Type},
		func(d delivery) []string {
			return []string{"Event " + d.EventID + " queued. Show it: partnerctl deliveries " + d.ID}
		})
}

type eventsCmd struct {
	After string `help:"Cursor of the previous page. Default: start with the oldest event."`
	Limit int    `help:"Items per page (1 to 100)." default:"100"`
}

func (c *eventsCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodGet, "/events"+query("after", c.After, "limit", strconv.Itoa(c.Limit)), nil,
		func(p eventPage) []string {
			lines := []string{row("CREATED", "TYPE", "CONSULTATION", "NUMBER", "EVENT")}
			for _, e := range p.Items {
				lines = append(lines, row(e.CreatedAt, e.Type, e.ConsultationID, e.Sequence, e.ID))
			}
			if p.Gap {
				lines = append(lines, "", "Some events after the cursor are missing: they are older than 30 days.")
			}
			return append(lines, "", "Next page: --after="+p.Cursor)
		})
}

type deliveriesCmd struct {
	ID           string `arg:"" optional:"" help:"ID of one delivery to show with its attempts."`
	State        string `help:"Show only PENDING, DELIVERED or FAILED deliveries."`
	Consultation string `help:"Show only deliveries of this consultation."`
	listing      `embed:""`
}

func (c *deliveriesCmd) Run(ctx context.Context, s *service) error {
	if c.ID != "" {
		return tell(ctx, s, http.MethodGet, "/deliveries/"+url.PathEscape(c.ID), nil, showDelivery)
	}
	return tell(ctx, s, http.MethodGet, "/deliveries"+query("state", c.State, "consultationId", c.Consultation,
		"cursor", c.Cursor, "limit", strconv.Itoa(c.Limit)), nil, func(p page[delivery]) []string {
		lines := []string{row("CREATED", "STATE", "ATTEMPTS", "TYPE", "CONSULTATION", "DELIVERY")}
		for _, d := range p.newestLast() {
			lines = append(lines, row(d.CreatedAt, d.State, d.Attempts, d.EventType, d.ConsultationID, d.ID))
		}
		return p.more(lines)
	})
}

func showDelivery(d delivery) []string {
	lines := []string{row("delivery", d.ID), row("event", d.EventID), row("type", d.EventType),
		row("consultation", d.ConsultationID), row("state", d.State), row("next attempt", d.NextAttemptAt), ""}
	for _, a := range d.AttemptLog {
		lines = append(lines, row(fmt.Sprint("attempt ", a.Number), a.StartedAt, a.StatusCode,
			fmt.Sprint(a.DurationMs, " ms"), a.Error))
		if a.ResponseBody != "" {
			lines = append(lines, row("", strconv.Quote(a.ResponseBody)))
		}
	}
	return lines
}

type resendCmd struct {
	ID    string `arg:"" help:"ID of the delivery."`
	AsNew bool   `help:"Send it as a new delivery with a new ID."`
}

func (c *resendCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPost, "/deliveries/"+url.PathEscape(c.ID)+"/redeliver"+query("asNew",
		strconv.FormatBool(c.AsNew)), nil, func(d delivery) []string {
		return []string{"Queued. Show it: partnerctl deliveries " + d.ID}
	})
}

type requestsCmd struct {
	ID      string `arg:"" optional:"" help:"X-Request-Id of a response, to show the details."`
	Refused bool   `help:"Show only responses with status 400 or higher."`
	listing `embed:""`
}

func (c *requestsCmd) Run(ctx context.Context, s *service) error {
	if c.ID != "" {
		return tell(ctx, s, http.MethodGet, "/requests/"+url.PathEscape(c.ID), nil, func(r request) []string {
			lines := []string{row("id", r.ID), row("time", r.At), row("request", r.Method+" "+r.Path), row("status",
				fmt.Sprint(r.Status)), row("code", r.Code), row("duration", fmt.Sprint(r.DurationMs, " ms")),
				row("body", string(r.Body))}
			for _, i := range r.Issues {
				lines = append(lines, row("issue", i.Path+": "+i.Message))
			}
			return lines
		})
	}
	return tell(ctx, s, http.MethodGet, "/requests"+query("refused", ifSet(c.Refused), "cursor", c.Cursor,
		"limit", strconv.Itoa(c.Limit)), nil, func(p page[request]) []string {
		lines := []string{row("TIME", "STATUS", "CODE", "DURATION", "REQUEST", "ID")}
		for _, r := range p.newestLast() {
			lines = append(lines, r.row())
		}
		return p.more(lines)
	})
}

type endpointCmd struct {
	URL *string `arg:"" optional:"" help:"URL to set. It must respond to a signed ping with 2xx."`
}

func (c *endpointCmd) Run(ctx context.Context, s *service) error {
	method, body := http.MethodGet, any(nil)
	if c.URL != nil {
		method, body = http.MethodPut, map[string]string{"url": *c.URL}
	}
	return tell(ctx, s, method, "/endpoint", body, func(e struct {
		URL            *string `json:"url"`
		DisabledAt     *string `json:"disabledAt"`
		DisabledReason *string `json:"disabledReason"`
	}) []string {
		return []string{row("url", e.URL), row("disabled at", e.DisabledAt), row("reason", e.DisabledReason)}
	})
}

type examineCmd struct{}

func (c *examineCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPost, "/endpoint/examine", nil, func(e struct {
		Passed  bool `json:"passed"`
		Results []struct {
			Title          string `json:"title"`
			Passed, Advice bool
			Fault, Why     *string
		} `json:"results"`
	}) []string {
		var lines []string
		for _, x := range e.Results {
			switch {
			case x.Passed:
				lines = append(lines, row("ok", x.Title))
			case x.Advice:
				lines = append(lines, row("advice", x.Title), row("", x.Fault), row("", x.Why))
			default:
				lines = append(lines, row("FAILED", x.Title), row("", x.Fault), row("", x.Why))
			}
		}
		return append(lines, "", map[bool]string{true: "PASSED", false: "FAILED"}[e.Passed])
	})
}

type checklistCmd struct{}

func (c *checklistCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodGet, "/checklist", nil, func(l struct {
		Items []struct {
			Title, Saw string
			Done       bool
			NotChecked bool `json:"notChecked"`
		} `json:"items"`
	}) []string {
		var lines []string
		for _, i := range l.Items {
			state := map[bool]string{true: "done", false: "TO DO"}[i.Done]
			if i.NotChecked {
				state = "not checked"
			}
			lines = append(lines, row(state, i.Title, i.Saw))
		}
		return lines
	})
}

type clockCmd struct {
	By span `arg:"" help:"Seconds, or a duration like 30m or 1h30m."`
}

// span is a duration; a bare number means seconds.
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *span) UnmarshalText(text []byte) error {
	if seconds, err := strconv.ParseInt(string(text), 10, 32); err == nil {
		*d = span(time.Duration(seconds) * time.Second)
	} else if by, err := time.ParseDuration(string(text)); err == nil {
		*d = span(by)
	} else {
		return fmt.Errorf("%q is not a number of seconds or a duration like 30m or 24h", text)
	}
	if time.Duration(*d) < time.Second {
		return errors.New("advance the clock by at least one second")
	}
	return nil
}

func (c *clockCmd) Run(ctx context.Context, s *service) error {
	for left := int64(time.Duration(c.By) / time.Second); left > 0; {
		var v struct{ AdvancedSeconds, RemainingSeconds int64 }
		if err := s.read(ctx, http.MethodPost, "/sandbox/clock/advance", map[string]int64{"seconds": left},
			&v); err != nil {
			return err
		}
		fmt.Println("The clock advanced by",
			strings.TrimSuffix((time.Duration(v.AdvancedSeconds)*time.Second).String(), "0s"))
		left = v.RemainingSeconds
	}
	return nil
}
