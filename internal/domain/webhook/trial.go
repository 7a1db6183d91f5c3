package webhook

import (
	"context"
	"net/http"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Trial posts to the endpoint of an application what it ought to take and what it ought to refuse, by the rules of
// every attempt. Nothing of it is kept.
type Trial struct {
	URL    string
	Secret string // that signs
	s      *Service
	of     string // application
}

// Post is one request of a [Trial]. Everything carries [HeaderTest].
type Post struct {
	Type       Type
	Delivery   string
	Sequence   int64
	Attempt    int
	Body       []byte
	Signatures http.Header // [HeaderSignature] and [HeaderSignaturePrevious], if any
}

// Answer is what came back.
type Answer struct {
	Status int // 0 without a complete answer
	Took   time.Duration
	Fault  string // why there is no complete answer
}

// Trial begins a trial of the endpoint. Problems: NOT_FOUND, VALIDATION_ERROR with an issue of url when there is none.
func (s *Service) Trial(ctx context.Context, tx postgres.Tx, applicationID string) (*Trial, error) {
	endpoint, err := selectEndpoint(ctx, tx, applicationID)
	if err != nil {
		return nil, err
	}
	if endpoint.URL == "" {
		return nil, problem.ErrValidation.With(ruleURLNone.At("url"))
	}
	secret, _, err := s.openSecrets(applicationID, endpoint.secrets(tx.Now))
	if err != nil {
		return nil, err
	}
	return &Trial{Secret: secret, s: s, of: applicationID, URL: endpoint.URL}, nil
}

// Post posts once.
func (t *Trial) Post(ctx context.Context, p Post) Answer {
	o := t.s.sender.send(ctx, message{url: t.URL, deliveryID: p.Delivery, kind: p.Type, sequence: p.Sequence,
		attempt: p.Attempt, body: p.Body, applicationID: t.of, test: true, signatures: p.Signatures})
	t.s.metrics.attempted(purposeTrial, o)
	a := Answer{Status: o.status, Took: o.duration}
	if o.status == 0 || o.class != "" && o.class != classStatus && o.class != classRedirect {
		a.Status, a.Fault = 0, o.errorText()
	}
	return a
}

// DeliveredTypes are the types among the last thousand events of real consultations that the application took.
func (s *Service) DeliveredTypes(ctx context.Context, tx postgres.Tx, applicationID string) ([]Type, error) {
	return deliveredTypes(ctx, tx, applicationID)
}
