package conformance

import (
	"context"
	"slices"
	"strings"
	"time"

	"partnerd/internal/application"
	"partnerd/internal/postgres"
	"partnerd/internal/requestlog"
	"partnerd/internal/webhook"
)

// MaxTime is what an examination by the service may take: less than an answer may.
const MaxTime = 40 * time.Second

// Service examines the receivers of applications, and keeps what came of it. Safe for concurrent use.
type Service struct {
	db           *postgres.DB
	webhooks     *webhook.Service
	applications *application.Service
	requests     *requestlog.Log
}

// New makes the service.
func New(db *postgres.DB, w *webhook.Service, a *application.Service, r *requestlog.Log) *Service {
	return &Service{db: db, webhooks: w, applications: a, requests: r}
}

// Examine examines the endpoint of an application with its own secret and keeps the report in place of the one before. It takes up
// to [MaxTime] with a receiver that stalls. Problems: NOT_FOUND, VALIDATION_ERROR when there is no URL.
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
	return report, save(ctx, s.db.Read(), applicationID, trial.URL, report)
}

// Last returns the last report of the URL that the endpoint has now, or nil when that was never examined.
func (s *Service) Last(ctx context.Context, tx postgres.Tx, applicationID string) (*Report, error) {
	endpoint, err := s.webhooks.Endpoint(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	return last(ctx, tx, applicationID, endpoint.URL)
}

// Item is one thing that ought to be done before an application goes live. It is measured, never ticked.
type Item struct {
	Name  string `json:"name"` // stable, for machines
	Title string `json:"title"`
	Done  bool   `json:"done"`
	Saw   string `json:"saw"` // what was measured, or what is missing
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
		examined(report, "signature", "Signatures are verified", "unsigned", "malformed-signature", "wrong-secret", "altered-body", "recent", "old", "future", "raw-body"),
		examined(report, "duplicates", "Duplicates and another order are taken", "duplicate", "out-of-order", "side-by-side"),
		examined(report, "unknown", "Types and fields that are new are taken", "unknown-type", "unknown-field"),
		examined(report, "gone", "410 is never answered, and every answer comes in time", "not-gone", "in-time"),
		eventsItem(delivered),
		{"refresh", "A refresh token was exchanged", refreshed, choose(refreshed, "Seen within the last 30 days.", "Not seen within the last 30 days: access tokens last 15 minutes.")},
		{"retry", "A creation was sent again with its Idempotency-Key", replayed, choose(replayed, "Seen within the last 30 days.", "Not seen within the last 30 days: send one creation twice with one key, as after an answer that was lost.")},
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
	bad := slices.IndexFunc(app.RedirectURIs, func(u string) bool { return !strings.HasPrefix(u, "https://") })
	item := Item{"redirect", "Redirect URIs are https", bad < 0, "All of them."}
	if bad >= 0 {
		item.Saw = app.RedirectURIs[bad] + " is for a sandbox only."
	}
	return item
}

func contactItem(app application.Application) Item {
	return Item{"contact", "Somebody is told when deliveries fail", app.ContactEmail != "", choose(app.ContactEmail != "", app.ContactEmail, "The application has no contact address.")}
}

func endpointItem(e webhook.Endpoint) Item {
	item := Item{Name: "endpoint", Title: "The webhook endpoint is there", Done: e.URL != "" && e.DisabledAt == nil, Saw: e.URL}
	switch {
	case e.URL == "":
		item.Saw = "No URL is set."
	case e.DisabledAt != nil:
		item.Saw = "It was disabled at " + e.DisabledAt.UTC().Format(time.RFC3339) + "."
	case !strings.HasPrefix(e.URL, "https://"):
		item.Done, item.Saw = false, e.URL+" is for a sandbox only: live posts to https."
	}
	return item
}

// examined is done when the last examination passed all these checks.
func examined(r *Report, name, title string, checks ...string) Item {
	item := Item{Name: name, Title: title}
	if r == nil {
		item.Saw = "The endpoint was not examined since its URL was set."
		return item
	}
	for _, x := range r.Results {
		if slices.Contains(checks, x.Name) && !x.Passed {
			item.Saw = x.Title + ": " + x.Fault
			return item
		}
	}
	item.Done, item.Saw = true, "Examined at "+r.At.UTC().Format(time.RFC3339)+"."
	return item
}

// wanted are the events that every integration meets.
var wanted = []webhook.Type{webhook.Created, webhook.Completed, webhook.NoteAvailable, webhook.Cancelled, webhook.Refunded, webhook.PendingCallback, webhook.Expired}

func eventsItem(delivered []webhook.Type) Item {
	var missing []string
	for _, t := range wanted {
		if !slices.Contains(delivered, t) {
			missing = append(missing, string(t))
		}
	}
	return Item{"events", "Consultations were played to each of their ends", len(missing) == 0,
		choose(len(missing) == 0, "The events of every end were delivered.", "Not delivered from a consultation yet: "+strings.Join(missing, ", ")+".")}
}
