package webhook

import (
	"context"
	"net/http"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Trial posts valid and invalid messages to the endpoint of an application, under the rules of every attempt. Nothing
// of it is stored.
type Trial struct {
	URL    string
	Secret string // signing secret
	s      *Service
	of     string // application
}

// Post is one request of a [Trial]. Every request carries [HeaderTest].
type Post struct {
	Type       Type
	Delivery   string
	Sequence   int64
	Attempt    int
	Body       []byte
	Signatures http.Header // [HeaderSignature] and [HeaderSignaturePrevious], if any
}

// Answer is the response to a [Post].
type Answer struct {
	Status int // 0 without a complete response
	Took   time.Duration
	Fault  string // why there is no complete response
}

// Trial starts a trial of the endpoint. It returns NOT_FOUND, or VALIDATION_ERROR with an issue at url if there is no
// URL.
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

// Post makes one request.
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

// DeliveredTypes returns the types among the last thousand events of real consultations that the application accepted.
func (s *Service) DeliveredTypes(ctx context.Context, tx postgres.Tx, applicationID string) ([]Type, error) {
	return deliveredTypes(ctx, tx, applicationID)
}
