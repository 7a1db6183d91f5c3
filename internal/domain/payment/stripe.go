package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"partnerd/internal/base/money"
	"partnerd/internal/base/telemetry"
)

// StripeProvider is the name of Stripe, used in the path of its notices.
const StripeProvider = "stripe"

const (
	stripeTimeout  = 15 * time.Second
	stripeRetries  = 1
	topUpMetadata  = "topup_id" // metadata keys with our IDs in Stripe's objects
	refundMetadata = "refund_id"
)

// StripeConfig is an account at Stripe. Both secrets are required.
type StripeConfig struct {
	SecretKey     string // sk_live_…, sk_test_… or a restricted key
	WebhookSecret string // whsec_…, of the endpoint {base}/payments/notices/stripe
	APIBase       string // for a stand-in; empty means Stripe
	HTTPClient    *http.Client
	Tracer        *telemetry.Tracer // traces requests to Stripe; nil for none
}

// Stripe takes payments through Stripe Checkout. The endpoint at Stripe must send these events:
//   - checkout.session.completed, .async_payment_succeeded, .async_payment_failed and .expired
//   - charge.dispute.created, .updated, .closed, .funds_withdrawn and .funds_reinstated
//   - charge.refunded
//   - refund.created, .updated and .failed
type Stripe struct {
	client *stripe.Client
	cfg    StripeConfig
}

var _ Provider = (*Stripe)(nil)

// NewStripe creates the provider. It makes no request.
func NewStripe(cfg StripeConfig) *Stripe {
	backend := &stripe.BackendConfig{
		HTTPClient: cfg.HTTPClient, MaxNetworkRetries: stripe.Int64(stripeRetries), EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}
	if backend.HTTPClient == nil {
		backend.HTTPClient = &http.Client{Transport: cfg.Tracer.Transport(nil), Timeout: stripeTimeout}
	}
	if cfg.APIBase != "" {
		backend.URL = stripe.String(cfg.APIBase)
	}
	return &Stripe{client: stripe.NewClient(cfg.SecretKey, stripe.WithBackends(stripe.NewBackendsWithConfig(backend))),
		cfg: cfg}
}

// Name implements [Provider].
func (*Stripe) Name() string { return StripeProvider }

// SignatureHeader implements [Provider].
func (*Stripe) SignatureHeader() string { return "Stripe-Signature" }

// productNames are the product names on Stripe's page and on the client's receipt, by language.
var productNames = map[string]string{"en": "Wallet top-up", "fr": "Recharge du portefeuille"}

// CreateCheckout implements [Provider] by POST /v1/checkout/sessions. It does not send the client's name or address.
func (s *Stripe) CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error) {
	reference := map[string]string{topUpMetadata: r.SessionID}
	p := &stripe.CheckoutSessionCreateParams{
		Mode:              stripe.String(string(stripe.CheckoutSessionModePayment)),
		ClientReferenceID: stripe.String(r.SessionID),
		Metadata:          reference,
		PaymentIntentData: &stripe.CheckoutSessionCreatePaymentIntentDataParams{Metadata: reference},
		LineItems: []*stripe.CheckoutSessionCreateLineItemParams{{
			Quantity: stripe.Int64(1),
			PriceData: &stripe.CheckoutSessionCreateLineItemPriceDataParams{
				Currency: stripe.String(strings.ToLower(money.Currency)), UnitAmount: stripe.Int64(int64(r.Amount)),
				ProductData: &stripe.CheckoutSessionCreateLineItemPriceDataProductDataParams{
					Name: stripe.String(productNames[r.Language]),
				},
			},
		}},
		ExpiresAt:  stripe.Int64(r.ExpiresAt.Unix()),
		SuccessURL: stripe.String(r.SuccessURL),
		CancelURL:  stripe.String(r.CancelURL),
		Locale:     stripe.String(r.Language),
	}
	p.SetIdempotencyKey(r.Key)
	session, err := s.client.V1CheckoutSessions.Create(ctx, p)
	if err != nil {
		return Checkout{}, stripeError("create Stripe checkout", err)
	}
	if session.ID == "" || session.URL == "" {
		return Checkout{}, errors.New("create Stripe checkout: the answer has no session or no address")
	}
	return Checkout{Ref: session.ID, URL: session.URL}, nil
}

// Expire implements [Provider] by POST /v1/checkout/sessions/{id}/expire.
func (s *Stripe) Expire(ctx context.Context, ref string) error {
	_, err := s.client.V1CheckoutSessions.Expire(ctx, ref, &stripe.CheckoutSessionExpireParams{})
	return stripeError("expire Stripe checkout", err)
}

// Refund implements [Provider] by POST /v1/refunds. Stripe keeps idempotency keys for at least a day, so a retry first
// looks for a refund that already arrived.
func (s *Stripe) Refund(ctx context.Context, r RefundRequest) (string, error) {
	if r.Again {
		if refund, err := s.refundOf(ctx, r); err != nil || refund != nil {
			return refundRef(refund, err)
		}
	}
	p := &stripe.RefundCreateParams{
		PaymentIntent: stripe.String(r.PaymentRef), Amount: stripe.Int64(int64(r.Amount)),
		Reason:   stripe.String(string(stripe.RefundReasonRequestedByCustomer)),
		Metadata: map[string]string{topUpMetadata: r.TopUpID, refundMetadata: r.ID},
	}
	p.SetIdempotencyKey(r.ID)
	return refundRef(s.client.V1Refunds.Create(ctx, p))
}

// refundOf returns the refund that a request created, or nil if there is none, by GET /v1/refunds.
func (s *Stripe) refundOf(ctx context.Context, r RefundRequest) (*stripe.Refund, error) {
	p := &stripe.RefundListParams{PaymentIntent: stripe.String(r.PaymentRef)}
	p.Limit = stripe.Int64(100)
	for refund, err := range s.client.V1Refunds.List(ctx, p).All(ctx) {
		if err != nil || refund.Metadata[refundMetadata] == r.ID {
			return refund, err
		}
	}
	return nil, nil
}

func refundRef(refund *stripe.Refund, err error) (string, error) {
	if err != nil {
		return "", stripeError("refund at Stripe", err)
	}
	if refund.Status == stripe.RefundStatusFailed || refund.Status == stripe.RefundStatusCanceled {
		return "", fmt.Errorf("refund at Stripe: %w: %s", ErrRefused, refund.Status)
	}
	return refund.ID, nil
}

// stripeError classifies an error. Stripe's final refusals wrap [ErrRefused]. A conflict, a rate limit or a Stripe
// failure may be temporary. So may wrong keys, once someone corrects them.
func stripeError(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *stripe.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	fault := fmt.Errorf("%s: status %d, %s %s: %s (request %s)", doing, e.HTTPStatusCode, e.Type, e.Code, e.Msg,
		e.RequestID)
	switch e.HTTPStatusCode {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrRefused, fault)
	}
	return fault
}

// ReadNotice implements [Provider]. An event is accepted within [tolerance] of its signature's time, by our clock.
func (s *Stripe) ReadNotice(body []byte, signature string, now time.Time) (Notice, bool, error) {
	if s.cfg.WebhookSecret == "" || !signedRecently(signature, now) {
		return Notice{}, false, ErrBadSignature
	}
	// The fields read here are identical in all versions of Stripe's API that have them.
	event, err := stripe.ConstructEvent(body, signature, s.cfg.WebhookSecret, stripe.WithIgnoreTolerance(),
		stripe.WithIgnoreAPIVersionMismatch())
	if errors.Is(err, stripe.ErrWebhookNoValidSignature) || errors.Is(err, stripe.ErrWebhookInvalidHeader) ||
		errors.Is(err, stripe.ErrWebhookNotSigned) {
		return Notice{}, false, ErrBadSignature
	}
	if err != nil || event.Data == nil {
		return Notice{}, false, fmt.Errorf("%w: not an event of Stripe", ErrBadNotice)
	}
	n := Notice{ID: event.ID, Type: Kind(event.Type), CreatedAt: time.Unix(event.Created, 0).UTC()}
	if why := s.foreign(event); why != "" {
		return n, false, fmt.Errorf("%w: %s", ErrForeignNotice, why)
	}
	acted, err := false, error(nil)
	switch event.Type {
	case stripe.EventTypeCheckoutSessionCompleted, stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded,
		stripe.EventTypeCheckoutSessionAsyncPaymentFailed, stripe.EventTypeCheckoutSessionExpired:
		acted, err = n.readCheckout(event)
	case stripe.EventTypeChargeDisputeCreated, stripe.EventTypeChargeDisputeUpdated,
		stripe.EventTypeChargeDisputeClosed, stripe.EventTypeChargeDisputeFundsWithdrawn,
		stripe.EventTypeChargeDisputeFundsReinstated:
		acted, err = true, n.readDispute(event)
	case stripe.EventTypeRefundCreated, stripe.EventTypeRefundUpdated, stripe.EventTypeRefundFailed,
		stripe.EventTypeChargeRefundUpdated:
		acted, err = true, n.readRefund(event)
	case stripe.EventTypeChargeRefunded:
		acted, err = true, n.readRefundSum(event)
	}
	if err != nil {
		return Notice{}, false, fmt.Errorf("%w: %w", ErrBadNotice, err)
	}
	return n, acted, nil
}

// foreign returns why an event does not concern the money of our key, or "". Stripe also posts events of test mode and
// of connected accounts to live endpoints, with the same signature.
func (s *Stripe) foreign(event stripe.Event) string {
	_, mode, _ := strings.Cut(s.cfg.SecretKey, "_") // sk_live_…, rk_test_…
	switch {
	case event.Livemode == strings.HasPrefix(mode, "test_"):
		return fmt.Sprintf("livemode is %t", event.Livemode)
	case event.Account != "":
		return "it is of the connected account " + strconv.Quote(event.Account)
	}
	return ""
}

// readCheckout reads a checkout event. It returns false for a session created for another purpose with the same
// account.
func (n *Notice) readCheckout(event stripe.Event) (bool, error) {
	var session stripe.CheckoutSession
	if err := json.Unmarshal(event.Data.Raw, &session); err != nil {
		return false, err
	}
	if n.SessionID = session.Metadata[topUpMetadata]; n.SessionID == "" {
		n.SessionID = session.ClientReferenceID
	}
	n.Type, n.ProviderRef = stripeKind(event.Type, session.PaymentStatus), session.ID
	n.read(session.AmountTotal, session.Currency, session.PaymentIntent, "")
	return n.SessionID != "", nil
}

// readDispute reads a dispute event. The money counts as gone once there is a real dispute, not just an inquiry before
// one, because Stripe takes it at that moment. Waiting longer could let the client spend it.
func (n *Notice) readDispute(event stripe.Event) error {
	var d stripe.Dispute
	if err := json.Unmarshal(event.Data.Raw, &d); err != nil {
		return err
	}
	charge := ""
	if d.Charge != nil {
		charge = d.Charge.ID
	}
	n.Type = PaymentDisputed
	n.read(d.Amount, d.Currency, d.PaymentIntent, charge)
	question := strings.HasPrefix(string(d.Status), "warning_") || d.Status == stripe.DisputeStatusPrevented
	n.Reversal = &Reversal{Ref: d.ID,
		Gone: !question || event.Type == stripe.EventTypeChargeDisputeFundsWithdrawn,
		Back: d.Status == stripe.DisputeStatusWon || event.Type == stripe.EventTypeChargeDisputeFundsReinstated}
	return nil
}

func (n *Notice) readRefund(event stripe.Event) error {
	var r stripe.Refund
	if err := json.Unmarshal(event.Data.Raw, &r); err != nil {
		return err
	}
	charge := ""
	if r.Charge != nil {
		charge = r.Charge.ID
	}
	n.Type = PaymentRefunded
	n.read(r.Amount, r.Currency, r.PaymentIntent, charge)
	n.Reversal = &Reversal{Ref: r.ID, RefundID: r.Metadata[refundMetadata],
		Gone: r.Status != stripe.RefundStatusRequiresAction, Back: r.Status == stripe.RefundStatusFailed ||
			r.Status == stripe.RefundStatusCanceled}
	return nil
}

func (n *Notice) readRefundSum(event stripe.Event) error {
	var c stripe.Charge
	if err := json.Unmarshal(event.Data.Raw, &c); err != nil {
		return err
	}
	n.Type = PaymentRefundSum
	n.read(c.AmountRefunded, c.Currency, c.PaymentIntent, c.ID)
	n.Reversal = &Reversal{Ref: c.ID, Gone: true}
	return nil
}

// read sets the amount and the payment reference. A charge without a payment intent is referenced by its own ID.
func (n *Notice) read(amount int64, currency stripe.Currency, intent *stripe.PaymentIntent, charge string) {
	n.AmountCents, n.Currency, n.PaymentRef = money.Cents(amount), strings.ToUpper(string(currency)), charge
	if intent != nil {
		n.PaymentRef = intent.ID
	}
}

func stripeKind(t stripe.EventType, paid stripe.CheckoutSessionPaymentStatus) Kind {
	switch {
	case t == stripe.EventTypeCheckoutSessionAsyncPaymentFailed:
		return CheckoutFailed
	case t == stripe.EventTypeCheckoutSessionExpired:
		return CheckoutExpired
	case t == stripe.EventTypeCheckoutSessionCompleted && paid == stripe.CheckoutSessionPaymentStatusUnpaid:
		return CheckoutPending // for example a bank debit that takes days
	}
	return CheckoutPaid
}

// signedRecently checks the time in a signature header, which the signature covers. It accepts exactly one timestamp,
// because the library uses the last of several.
func signedRecently(header string, now time.Time) bool {
	var stamps []string
	for part := range strings.SplitSeq(header, ",") {
		if stamp, ok := strings.CutPrefix(part, "t="); ok {
			stamps = append(stamps, stamp)
		}
	}
	if len(stamps) != 1 {
		return false
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	return err == nil && now.Sub(time.Unix(seconds, 0)).Abs() < tolerance
}
