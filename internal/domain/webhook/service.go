package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
)

// Config is the configuration of a [Service]. The zero value is for a live deployment.
type Config struct {
	Sandbox       bool     // http URLs and any port are allowed
	AllowLoopback bool     // deliveries may go to this machine; for sandboxes only
	HideLoopback  bool     // partners are not on this machine and must not see its responses
	Ports         []uint16 // allowed in addition to 443 in a live deployment

	// of an attempt, from its start to the end of the response; 0 means 5 s (plus 200 ms for the network)
	Timeout        time.Duration
	ConnectTimeout time.Duration // 0 means 2 s
	Lease          time.Duration // how long a claimed delivery is left alone; must exceed Timeout; 0 means 15 s
	// how often the leading process polls for due and for held deliveries; 0 means 500 ms
	Poll                time.Duration
	Slots               int           // attempts in progress in this process; 0 means 2000
	EndpointConcurrency int           // of these, per endpoint; 0 means 10
	Retention           time.Duration // of events, see [Service.Purge]; 0 means [DefaultRetention]

	Proxy    *url.URL      // HTTP proxy for all deliveries; nil for none. See [ParseProxy]
	Resolver *net.Resolver // of the names in URLs; nil means the machine's

	Notifier   Notifier              // notifies partners about failing endpoints; nil means log only
	Now        func() time.Time      // time of signatures; nil means the machine's clock
	Registerer prometheus.Registerer // for the metrics; nil for none
	Tracer     *telemetry.Tracer     // traces attempts; nil for none
	Logger     *slog.Logger          // nil for none
}

// An endpoint has 5 s (specification section 6.5); the network gets extra time.
const (
	endpointTimeout  = 5 * time.Second
	networkAllowance = 200 * time.Millisecond
)

// Service writes events and delivers them. It is safe for concurrent use.
type Service struct {
	db      *postgres.DB
	box     *seal.Box
	cfg     Config
	log     *slog.Logger
	sender  *sender
	metrics *metrics
	wake    chan struct{}     // due deliveries may exist
	others  *postgres.Channel // the dispatchers of other processes

	delivering atomic.Bool // a dispatcher runs here
	leading    atomic.Bool // this process polls for due deliveries
}

// New creates a service. It delivers nothing before [Service.Run].
func New(db *postgres.DB, box *seal.Box, cfg Config) *Service {
	cfg.Timeout = cmp.Or(cfg.Timeout, endpointTimeout+networkAllowance)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 2*time.Second)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Second)
	cfg.Poll = cmp.Or(cfg.Poll, 500*time.Millisecond)
	cfg.Slots = cmp.Or(cfg.Slots, 2000)
	cfg.EndpointConcurrency = cmp.Or(cfg.EndpointConcurrency, 10)
	if cfg.Now == nil {
		cfg.Now = clock.System{}.Now
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	if cfg.Notifier == nil {
		cfg.Notifier = logNotifier{log}
	}
	return &Service{
		db: db, box: box, cfg: cfg, log: log, sender: newSender(cfg), metrics: newMetrics(cfg.Registerer, db, log),
		wake: make(chan struct{}, 1), others: db.Channel(channel, log),
	}
}

// Emit writes events of one subject, and a delivery for each, in the caller's transaction and in the given order. The
// first gets firstSequence, each further one the next number. The caller holds the consultation's row lock, so the
// numbers have no gaps. Delivery begins after the transaction has committed.
func (s *Service) Emit(ctx context.Context, tx postgres.Tx, subject Subject, firstSequence int64,
	events ...Event,
) error {
	return s.EmitAll(ctx, tx, Emission{subject, firstSequence, events})
}

// Emission is the input of [Service.Emit] for one subject.
type Emission struct {
	Subject       Subject
	FirstSequence int64
	Events        []Event
}

// EmitAll is [Service.Emit] for several subjects, in one statement.
func (s *Service) EmitAll(ctx context.Context, tx postgres.Tx, emissions ...Emission) error {
	var rows []newEvent
	for _, em := range emissions {
		for i, e := range em.Events {
			eventID := tx.NewID(id.Event)
			b, err := encodeBody(eventID, em.Subject, e, tx.Now)
			if err != nil {
				return err
			}
			rows = append(rows, newEvent{ID: eventID, DeliveryID: tx.NewID(id.Delivery),
				ApplicationID: em.Subject.ApplicationID, ConsultationID: em.Subject.ConsultationID,
				Sequence: em.FirstSequence + int64(i), Type: e.Type, Body: b})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := insertEvents(ctx, tx, rows); err != nil {
		return err
	}
	tx.AfterCommit(s.wakeUp)
	return nil
}

// channel wakes the dispatchers of other processes.
const channel = "partnerd_webhooks"

// Announce tells the delivering processes about commits of this one, until ctx ends. It is for a process that does not
// run [Service.Run].
func (s *Service) Announce(ctx context.Context) error {
	s.others.Tell(ctx)
	return nil
}

// wakeUp wakes the dispatcher of this process, or those of the others if there is none here. What one process has no
// capacity for, the others find when they poll. It never waits.
func (s *Service) wakeUp() {
	if s.delivering.Load() {
		signal(s.wake)
		return
	}
	s.others.Send("events")
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Endpoint is where the events of an application go.
type Endpoint struct {
	ApplicationID       string
	URL                 string // empty: events are held until it is set (decision H57)
	PreviousSecretUntil *time.Time
	DisabledAt          *time.Time // deliveries are held since then
	DisabledReason      string
	FailingSince        *time.Time // first failure since the last success, or since enabling it or setting its URL
	EnabledEvents       []Type     // of [ClientTypes]
	CreatedAt           time.Time
	UpdatedAt           time.Time // when URL or secret was last set
}

// SecretOverlap is how long X-Service-Signature-Previous accompanies a new secret (trap T11).
const SecretOverlap = 24 * time.Hour

const secretPrefix = "whsec"

// CreateEndpoint creates the endpoint of an application and returns its signing secret, which is not shown again.
// rawURL may be empty. It returns VALIDATION_ERROR with issue invalid_url.
func (s *Service) CreateEndpoint(ctx context.Context, tx postgres.Tx,
	applicationID, rawURL string,
) (secret string, err error) {
	if rawURL != "" {
		if err := s.checkURL(rawURL); err != nil {
			return "", err
		}
	}
	secret = tx.NewSecret(secretPrefix)
	sealed, err := s.box.Seal(secretPlace(applicationID), []byte(secret))
	if err != nil {
		return "", err
	}
	if err := insertEndpoint(ctx, tx, applicationID, rawURL, sealed); err != nil {
		return "", fmt.Errorf("create webhook endpoint of %s: %w", applicationID, err)
	}
	tx.AfterCommit(s.wakeUp)
	return secret, nil
}

// Endpoint returns the endpoint of an application, or NOT_FOUND.
func (s *Service) Endpoint(ctx context.Context, tx postgres.Tx, applicationID string) (Endpoint, error) {
	r, err := selectEndpoint(ctx, tx, applicationID)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{
		ApplicationID: r.ApplicationID, URL: r.URL, PreviousSecretUntil: r.PreviousSecretUntil,
		DisabledAt: r.DisabledAt, DisabledReason: r.DisabledReason, FailingSince: r.FailingSince,
		EnabledEvents: r.EnabledEvents, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}, nil
}

// SetURL sends everything from now on, including waiting deliveries, to another URL, and enables the endpoint. It
// returns VALIDATION_ERROR with issue invalid_url, or NOT_FOUND.
func (s *Service) SetURL(ctx context.Context, tx postgres.Tx, applicationID, rawURL string) error {
	if rawURL != "" {
		if err := s.checkURL(rawURL); err != nil {
			return err
		}
	}
	if err := updateEndpointURL(ctx, tx, applicationID, rawURL); err != nil {
		return err
	}
	tx.AfterCommit(s.wakeUp)
	return nil
}

// EnableEndpoint releases held deliveries, each when its next attempt is due. An endpoint that is not disabled stays
// unchanged. It returns NOT_FOUND.
func (s *Service) EnableEndpoint(ctx context.Context, tx postgres.Tx, applicationID string) error {
	if err := enableEndpoint(ctx, tx, applicationID); err != nil {
		return err
	}
	tx.AfterCommit(s.wakeUp)
	return nil
}

// Rotation says how to replace a signing secret.
type Rotation struct {
	EndPrevious bool // ends the previous secret if it still signs
	// KeepPrevious replaces the current secret immediately, for example because it leaked. The previous secret signs
	// until its expiry. It must still sign, and cannot be combined with EndPrevious.
	KeepPrevious bool
}

var ruleKeep = problem.DeclareRule("signing.keep", problem.IssueInvalidValue,
	"Keep the previous secret or end it, not both.")

// RotateSecret replaces the signing secret. It returns the new secret and the time until which the previous one signs
// in a second header. The current secret becomes the previous one for [SecretOverlap], unless r keeps the existing
// previous secret.
//
// If a previous secret still signs, r must end it or keep it. It returns INVALID_REQUEST, NOT_FOUND,
// PREVIOUS_SECRET_ACTIVE or NO_PREVIOUS_SECRET.
func (s *Service) RotateSecret(ctx context.Context, tx postgres.Tx, applicationID string,
	r Rotation,
) (secret string, until time.Time, err error) {
	if r.KeepPrevious && r.EndPrevious {
		return "", until, problem.ErrMalformed.With(ruleKeep.At("keepPrevious"))
	}
	secret = tx.NewSecret(secretPrefix)
	sealed, err := s.box.Seal(secretPlace(applicationID), []byte(secret))
	if err != nil {
		return "", until, err
	}
	done, err := rotateSecret(ctx, tx, applicationID, sealed, r)
	if err != nil {
		return "", until, err
	}
	e, err := s.Endpoint(ctx, tx, applicationID)
	switch {
	case err != nil:
		return "", until, err
	case done:
		return secret, *e.PreviousSecretUntil, nil
	case r.KeepPrevious:
		return "", until, problem.ErrNoPreviousSecret
	}
	return "", until, problem.PreviousSecretWorks(*e.PreviousSecretUntil)
}

func (s *Service) checkURL(raw string) error {
	if issue := checkURL(raw, s.cfg.Sandbox, s.sender.guard); issue != nil {
		s.metrics.urlsRefused.Inc()
		s.log.Warn("webhook URL refused", "reason", issue.Why.Rule.Key)
		return problem.ErrValidation.With(*issue)
	}
	return nil
}

// openSecrets decrypts the signing secret of an endpoint, and the previous one if it is in force.
func (s *Service) openSecrets(applicationID string, sealed sealedSecrets) (secret, previous string, err error) {
	opened, err := s.box.Open(secretPlace(applicationID), sealed.SecretSealed)
	if err != nil || len(sealed.PreviousSecretSealed) == 0 {
		return string(opened), "", err
	}
	before, err := s.box.Open(secretPlace(applicationID), sealed.PreviousSecretSealed)
	return string(opened), string(before), err
}

func secretPlace(applicationID string) string { return "webhook_endpoints.secret:" + applicationID }

// State is the state of a delivery.
type State string

// The states of a delivery.
const (
	Pending   State = "PENDING"   // an attempt is due, in progress or held
	Delivered State = "DELIVERED" // the endpoint responded with 2xx
	Failed    State = "FAILED"    // every attempt failed
)

// Delivery is the sending of one event.
type Delivery struct {
	ID      string `gorm:"column:id;primaryKey"`
	EventID string `gorm:"column:event_id"`
	// subject of the event: this or ClientID; neither: a test event
	ConsultationID string `gorm:"column:consultation_id;serializer:zeronull"`
	ClientID       string `gorm:"-"` // of the event
	Type           Type   `gorm:"-"` // of the event
	// of the event, within its consultation or among those about its client
	Sequence  int64      `gorm:"column:sequence"`
	State     State      `gorm:"column:state"`
	Attempts  int        `gorm:"column:attempts"`
	NextAt    *time.Time `gorm:"-"` // earliest time of the next attempt; nil when ended
	CreatedAt time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	EndedAt   *time.Time `gorm:"column:ended_at"`
}

// Health counts the deliveries of an application created in a period, by state.
type Health struct {
	Delivered, Failed, Pending int
	Oldest                     *time.Time // creation of the oldest pending delivery
}

// Rate returns the percentage of ended deliveries that were delivered, or 100 if none has ended.
func (h Health) Rate() int {
	if h.Delivered+h.Failed == 0 {
		return 100
	}
	return 100 * h.Delivered / (h.Delivered + h.Failed)
}

// HealthOf counts the deliveries of an application created since a time.
func (s *Service) HealthOf(ctx context.Context, tx postgres.Tx, applicationID string, since time.Time) (Health, error) {
	return healthOf(ctx, tx, applicationID, since)
}

// Position is a position in the delivery log.
type Position struct {
	CreatedAt time.Time `json:"t"`
	ID        string    `json:"i"`
}

// Position returns the position of the delivery in the log.
func (d Delivery) Position() Position { return Position{d.CreatedAt, d.ID} }

// DeliveryFilter selects from the delivery log. Empty fields match everything.
type DeliveryFilter struct {
	State          State
	ConsultationID string
	EventID        string
	From, To       time.Time // creation time; To is exclusive
	Before         Position  // last delivery already seen
	Limit          int       // 1 to 100; 0 means 20
}

// Deliveries lists deliveries of an application, newest first, and reports whether older ones remain.
func (s *Service) Deliveries(ctx context.Context, tx postgres.Tx, applicationID string,
	f DeliveryFilter,
) (items []Delivery, more bool, err error) {
	f.Limit = min(cmp.Or(max(f.Limit, 0), 20), 100)
	items, err = selectDeliveries(ctx, tx, applicationID, f, f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list deliveries of %s: %w", applicationID, err)
	}
	if len(items) > f.Limit {
		return items[:f.Limit], true, nil
	}
	return items, false, nil
}

// Delivery returns a delivery of the application, or NOT_FOUND.
func (s *Service) Delivery(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) (Delivery, error) {
	return selectDelivery(ctx, tx, applicationID, deliveryID)
}

// Attempt is one POST of a delivery.
type Attempt struct {
	Number       int // from 1; keeps counting after a redelivery
	StartedAt    time.Time
	Duration     time.Duration // to the millisecond
	StatusCode   int           // 0: no response
	Error        string        // "<class>: <detail>"; empty on success
	ResponseBody string        // first 4 KB, as text
}

// Attempts lists the attempts of a delivery of the application, oldest first. It returns NOT_FOUND.
func (s *Service) Attempts(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) ([]Attempt, error) {
	return selectAttempts(ctx, tx, applicationID, deliveryID)
}
