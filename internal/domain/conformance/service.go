package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/requestlog"
)

// MaxTime limits a run started by the service. It is less than the time allowed for a response.
const MaxTime = 40 * time.Second

// Service checks the endpoints of applications and stores the reports. Safe for concurrent use.
type Service struct {
	db           *postgres.DB
	webhooks     *webhook.Service
	applications *application.Service
	requests     *requestlog.Log
}

// New creates the service.
func New(db *postgres.DB, w *webhook.Service, a *application.Service, r *requestlog.Log) *Service {
	return &Service{db: db, webhooks: w, applications: a, requests: r}
}

// Examine checks an application's endpoint with its own secret and replaces the stored report. With an endpoint that
// stalls it takes up to [MaxTime]. Problems: NOT_FOUND, or VALIDATION_ERROR if there is no URL.
func (s *Service) Examine(ctx context.Context, applicationID string) (Report, error) {
	trial, err := s.webhooks.Trial(ctx, s.db.Read(), applicationID)
	if err != nil {
		return Report{}, err
	}
	within, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	report := Examine(within, trial.Post, trial.Secret)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	return report, s.db.InTx(ctx, func(tx postgres.Tx) error { return save(ctx, tx, applicationID, trial.URL, report) })
}

// Last returns the stored report for the endpoint's current URL, or nil if that URL was never checked.
func (s *Service) Last(ctx context.Context, tx postgres.Tx, applicationID string) (*Report, error) {
	endpoint, err := s.webhooks.Endpoint(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	return last(ctx, tx, applicationID, endpoint.URL)
}

// Item is something to do before an application goes live. It is measured, never ticked off.
type Item struct {
	Name  string    `json:"name"` // stable, for machines
	Title string    `json:"title"`
	Done  bool      `json:"done"`
	Later bool      `json:"-"`   // not checked, because it is about an address that works only in a sandbox
	Saw   string    `json:"saw"` // what was measured or is missing
	Found string    `json:"-"`   // the same as a key of [Findings]; empty if Check is set
	Of    string    `json:"-"`   // subject of the finding: an address, event types, the fault of a check; often empty
	At    time.Time `json:"-"`   // time that the finding is about; zero for none
	Check string    `json:"-"`   // name of the check that failed
}

// findings are the texts that an item can show; %s is its subject or time.
var findings = map[string]string{
	"all_https": "All of them use HTTPS.", "sandbox_redirect": "%s works in the sandbox only. Register an https URI " +
		"when you go live.",
	"contact": "%s", "no_contact": "No contact email is set. Add one in the settings.",
	"endpoint": "%s", "no_endpoint": "No webhook URL is set.", "endpoint_disabled": "The endpoint was disabled at %s.",
	"sandbox_endpoint": "%s works in the sandbox only. Set a public https URL when you go live.",
	"examined":         "Checked at %s.", "not_examined": "The endpoint has not been checked since its URL was set.",
	"events":         "The events of every outcome were delivered.",
	"events_missing": "No consultation has delivered these events yet: %s.",
	"seen":           "Seen in the last 30 days.",
	"refresh_unseen": "Not seen in the last 30 days. Access tokens expire after 15 minutes.",
	"retry_unseen": "Not seen in the last 30 days. Send the same create request twice with one key, as after a " +
		"lost response.",
}

// Findings returns the possible values of [Item.Found], sorted.
func Findings() []string { return slices.Sorted(maps.Keys(findings)) }

// newItem returns an item with a finding about of, which may be empty.
func newItem(name, title string, done bool, finding, of string) Item {
	i := Item{Name: name, Title: title, Done: done, Saw: findings[finding], Found: finding, Of: of}
	if of != "" {
		i.Saw = fmt.Sprintf(i.Saw, of)
	}
	return i
}

// newItemAt returns an item with a finding about a time.
func newItemAt(name, title string, done bool, finding string, at time.Time) Item {
	i := newItem(name, title, done, finding, at.UTC().Format(time.RFC3339))
	i.Of, i.At = "", at
	return i
}

// later marks an item that a sandbox cannot check: no one needs a public address or a tunnel before going live.
func later(i Item) Item {
	i.Later = true
	return i
}

// Checklist measures an application. Problem: NOT_FOUND.
func (s *Service) Checklist(ctx context.Context, tx postgres.Tx, applicationID string) ([]Item, error) {
	app, err := s.applications.Get(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	endpoint, err := s.webhooks.Endpoint(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	report, err := last(ctx, tx, applicationID, endpoint.URL)
	if err != nil {
		return nil, err
	}
	delivered, err := s.webhooks.DeliveredTypes(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	refreshed, err := s.requests.Refreshed(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	replayed, err := s.requests.Replayed(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	items := []Item{
		redirectItem(app), contactItem(app), endpointItem(endpoint),
		examined(report, "signature", "The endpoint verifies signatures", "unsigned", "malformed-signature",
			"wrong-secret", "altered-body", "recent", "old", "future", "raw-body"),
		examined(report, "duplicates", "The endpoint accepts duplicate and out-of-order events", "duplicate",
			"out-of-order", "side-by-side"),
		examined(report, "unknown", "The endpoint accepts unknown event types and fields", "unknown-type",
			"unknown-field"),
		examined(report, "gone", "The endpoint never responds with 410 and always responds in time", "not-gone",
			"in-time"),
		eventsItem(delivered),
		newItem("refresh", "An access token was refreshed", refreshed, choose(refreshed, "seen", "refresh_unseen"), ""),
		newItem("retry", "A create request was retried with its Idempotency-Key", replayed,
			choose(replayed, "seen", "retry_unseen"), ""),
	}
	return items, nil
}

func choose(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func redirectItem(app application.Application) Item {
	const name, title = "redirect", "Redirect URIs use HTTPS"
	if bad := slices.IndexFunc(app.RedirectURIs,
		func(u string) bool { return !strings.HasPrefix(u, "https://") }); bad >= 0 {
		return later(newItem(name, title, false, "sandbox_redirect", app.RedirectURIs[bad]))
	}
	return newItem(name, title, true, "all_https", "")
}

func contactItem(app application.Application) Item {
	hasContact := app.ContactEmail != ""
	return newItem("contact", "A contact is emailed when deliveries fail", hasContact,
		choose(hasContact, "contact", "no_contact"),
		app.ContactEmail)
}

func endpointItem(e webhook.Endpoint) Item {
	const name, title = "endpoint", "The webhook endpoint is set and enabled"
	switch {
	case e.URL == "":
		return newItem(name, title, false, "no_endpoint", "")
	case e.DisabledAt != nil:
		return newItemAt(name, title, false, "endpoint_disabled", *e.DisabledAt)
	case !strings.HasPrefix(e.URL, "https://"):
		return later(newItem(name, title, false, "sandbox_endpoint", e.URL))
	}
	return newItem(name, title, true, "endpoint", e.URL)
}

// examined returns an item that is done if the last run passed all these checks.
func examined(r *Report, name, title string, checks ...string) Item {
	if r == nil {
		return newItem(name, title, false, "not_examined", "")
	}
	for _, x := range r.Results {
		if slices.Contains(checks, x.Name) && !x.Passed {
			return Item{Name: name, Title: title, Saw: x.Title + ": " + x.Fault, Of: x.Fault, Check: x.Name}
		}
	}
	return newItemAt(name, title, true, "examined", r.At)
}

// wanted are the events that every integration meets.
var wanted = []webhook.Type{webhook.Created, webhook.Completed, webhook.NoteAvailable, webhook.Cancelled,
	webhook.Refunded, webhook.PendingCallback, webhook.Expired}

func eventsItem(delivered []webhook.Type) Item {
	var missing []string
	for _, t := range wanted {
		if !slices.Contains(delivered, t) {
			missing = append(missing, string(t))
		}
	}
	return newItem("events", "Every consultation outcome was tested", len(missing) == 0,
		choose(len(missing) == 0, "events", "events_missing"), strings.Join(missing, ", "))
}
