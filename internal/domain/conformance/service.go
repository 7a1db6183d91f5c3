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

// Examine examines the endpoint of an application with its own secret and keeps the report in place of the one before.
// It takes up to [MaxTime] with a receiver that stalls. Problems: NOT_FOUND, VALIDATION_ERROR when there is no URL.
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
	Name  string    `json:"name"` // stable, for machines
	Title string    `json:"title"`
	Done  bool      `json:"done"`
	Later bool      `json:"-"`   // not checked: it is about an address that works in a sandbox only
	Saw   string    `json:"saw"` // what was measured, or what is missing
	Found string    `json:"-"`   // the same as a word of [Findings]; empty with Check
	Of    string    `json:"-"`   // what that is about: an address, types of events, what a check found; often empty
	At    time.Time `json:"-"`   // the instant that it is about; zero for none
	Check string    `json:"-"`   // name of the check that failed
}

// findings are what an item can say, and about what.
var findings = map[string]string{
	"all_https": "All of them.", "sandbox_redirect": "%s works in the sandbox only. Register an https URI " +
		"when you go live.",
	"contact": "%s", "no_contact": "The application has no contact address.",
	"endpoint": "%s", "no_endpoint": "No URL is set.", "endpoint_disabled": "It was disabled at %s.",
	"sandbox_endpoint": "%s works in the sandbox only. Set a public https URL when you go live.",
	"examined":         "Examined at %s.", "not_examined": "The endpoint was not examined since its URL was set.",
	"events": "The events of every end were delivered.", "events_missing": "Not delivered from a consultation yet: %s.",
	"seen":           "Seen within the last 30 days.",
	"refresh_unseen": "Not seen within the last 30 days: access tokens last 15 minutes.",
	"retry_unseen": "Not seen within the last 30 days: send one creation twice with one key, as after an " +
		"answer that was lost.",
}

// Findings are the words of [Item.Found], sorted.
func Findings() []string { return slices.Sorted(maps.Keys(findings)) }

// found is an item of what was seen of something.
func found(name, title string, done bool, finding, of string) Item {
	i := Item{Name: name, Title: title, Done: done, Saw: findings[finding], Found: finding, Of: of}
	if of != "" {
		i.Saw = fmt.Sprintf(i.Saw, of)
	}
	return i
}

// foundAt is an item about an instant.
func foundAt(name, title string, done bool, finding string, at time.Time) Item {
	i := found(name, title, done, finding, at.UTC().Format(time.RFC3339))
	i.Of, i.At = "", at
	return i
}

// later marks an item that a sandbox cannot check: nobody needs a public address or a tunnel before going live.
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
		examined(report, "signature", "Signatures are verified", "unsigned", "malformed-signature",
			"wrong-secret", "altered-body", "recent", "old", "future", "raw-body"),
		examined(report, "duplicates", "Duplicates and another order are taken", "duplicate", "out-of-order",
			"side-by-side"),
		examined(report, "unknown", "Types and fields that are new are taken", "unknown-type", "unknown-field"),
		examined(report, "gone", "410 is never answered, and every answer comes in time", "not-gone", "in-time"),
		eventsItem(delivered),
		found("refresh", "A refresh token was exchanged", refreshed, choose(refreshed, "seen", "refresh_unseen"), ""),
		found("retry", "A creation was sent again with its Idempotency-Key", replayed,
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
	const name, title = "redirect", "Redirect URIs are https"
	if bad := slices.IndexFunc(app.RedirectURIs,
		func(u string) bool { return !strings.HasPrefix(u, "https://") }); bad >= 0 {
		return later(found(name, title, false, "sandbox_redirect", app.RedirectURIs[bad]))
	}
	return found(name, title, true, "all_https", "")
}

func contactItem(app application.Application) Item {
	told := app.ContactEmail != ""
	return found("contact", "Somebody is told when deliveries fail", told, choose(told, "contact", "no_contact"),
		app.ContactEmail)
}

func endpointItem(e webhook.Endpoint) Item {
	const name, title = "endpoint", "The webhook endpoint is there"
	switch {
	case e.URL == "":
		return found(name, title, false, "no_endpoint", "")
	case e.DisabledAt != nil:
		return foundAt(name, title, false, "endpoint_disabled", *e.DisabledAt)
	case !strings.HasPrefix(e.URL, "https://"):
		return later(found(name, title, false, "sandbox_endpoint", e.URL))
	}
	return found(name, title, true, "endpoint", e.URL)
}

// examined is done when the last examination passed all these checks.
func examined(r *Report, name, title string, checks ...string) Item {
	if r == nil {
		return found(name, title, false, "not_examined", "")
	}
	for _, x := range r.Results {
		if slices.Contains(checks, x.Name) && !x.Passed {
			return Item{Name: name, Title: title, Saw: x.Title + ": " + x.Fault, Of: x.Fault, Check: x.Name}
		}
	}
	return foundAt(name, title, true, "examined", r.At)
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
	return found("events", "Consultations were played to each of their ends", len(missing) == 0,
		choose(len(missing) == 0, "events", "events_missing"), strings.Join(missing, ", "))
}
