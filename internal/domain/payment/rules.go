package payment

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
)

const maxReturnURL = 2048 // bytes; a URL is ASCII

func checkCreate(c CreateCommand, cfg Config) []problem.Issue {
	return append(checkAmount(c.Amount, cfg), checkReturn(c.ReturnURL, cfg)...)
}

func checkReturn(raw string, cfg Config) []problem.Issue {
	if len(raw) > maxReturnURL {
		return []problem.Issue{{Path: "returnUrl", Code: problem.IssueTooLong,
			Message: fmt.Sprintf("Must have at most %d characters.", maxReturnURL)}}
	}
	if fault := returnURLError(raw, cfg.Sandbox); fault != "" {
		return []problem.Issue{{Path: "returnUrl", Code: problem.IssueInvalidURL, Message: fault}}
	}
	return nil
}

func checkAmount(amount money.Cents, cfg Config) (issues []problem.Issue) {
	if amount < MinTopUp {
		issues = append(issues, problem.Issue{Path: "amountCents", Code: problem.IssueTooSmall,
			Message: fmt.Sprintf("Must be at least %d.", MinTopUp)})
	}
	if amount > cfg.MaxTopUp {
		issues = append(issues, problem.Issue{Path: "amountCents", Code: problem.IssueInvalidValue,
			Message: fmt.Sprintf("Must be at most %d.", cfg.MaxTopUp)})
	}
	return issues
}

// returnURLError returns what is wrong with a return URL (decision H31), or "". A fragment is allowed; the outcome is
// added to the query before it.
func returnURLError(raw string, sandbox bool) string {
	for _, b := range []byte(raw) {
		if b <= ' ' || b >= 0x7f || b == '\\' { // browsers and parsers disagree about these characters
			return "Must be a URL of printable ASCII characters, without a backslash."
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return "Must be an absolute URL."
	}
	if u.User != nil {
		return "Must not contain a user name or password."
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "Must have a port from 1 to 65535."
		}
	}
	switch host := u.Hostname(); {
	case u.Scheme == "https":
		return ""
	case u.Scheme == "http" && sandbox && (strings.EqualFold(host, "localhost") || host == "127.0.0.1" ||
		host == "::1"):
		return ""
	case sandbox:
		return "Must be an https URL, or an http URL of a loopback host (localhost, 127.0.0.1, [::1])."
	default:
		return "Must be an https URL."
	}
}

// Return returns where the client's browser goes after the checkout: the return URL with topup=success or
// topup=cancelled added to its query (decision H31). Only the wallet shows whether the money has arrived.
func (s Session) Return(success bool) string {
	outcome := "topup=cancelled"
	if success {
		outcome = "topup=success"
	}
	address, fragment, hasFragment := strings.Cut(s.ReturnURL, "#")
	switch {
	case !strings.Contains(address, "?"):
		address += "?" + outcome
	case strings.HasSuffix(address, "?") || strings.HasSuffix(address, "&"):
		address += outcome
	default:
		address += "&" + outcome
	}
	if hasFragment {
		address += "#" + fragment
	}
	return address
}

// statusAt returns the status at now of a session that is stored as st and payable before expires.
func statusAt(st Status, expires, now time.Time) Status {
	if st == Open && !now.Before(expires) {
		return Expired
	}
	return st
}

// Outcome is the recorded outcome of a notice.
type Outcome string

// The outcomes of notices.
const (
	Credited             Outcome = "credited"
	CreditedLate         Outcome = "credited_late"         // the session had expired, but the money was taken
	CreditedAfterCancel  Outcome = "credited_after_cancel" // the session was cancelled, but the money was taken
	AlreadyPaid          Outcome = "already_paid"          // an earlier notice reported it
	Closed               Outcome = "cancelled"
	IgnoredAfterDecision Outcome = "cancel_ignored" // already paid or cancelled
	Awaited              Outcome = "pending"        // the money is on its way
	Lapsed               Outcome = "expired"        // already known
	IgnoredType          Outcome = "ignored"        // a type without effect
	PaidTwice            Outcome = "paid_twice"     // by another payment than the credited one
	UnknownSession       Outcome = "unknown_session"
	AmountMismatch       Outcome = "amount_mismatch"
	CurrencyMismatch     Outcome = "currency_mismatch"
	CreditedToClosed     Outcome = "credited_to_closed" // the client is disabled or erased: refunded to its source
	Disputed             Outcome = "disputed"
	RefundedAtProvider   Outcome = "refunded_at_provider" // by someone at the provider, not by us
	RefundConfirmed      Outcome = "refund_confirmed"     // one of ours
	// one of ours that failed: the client has not received the money
	RefundFailed Outcome = "refund_failed"
	// a dispute or refund of a payment that is not credited, or not yet
	UnknownPayment Outcome = "unknown_payment"
)

// incidentOutcomes are the outcomes that someone has to review: money may have been taken without a credit, or money
// already spent is gone. The index payment_notices_incidents lists the same outcomes.
var incidentOutcomes = []Outcome{UnknownSession, AmountMismatch, CurrencyMismatch, PaidTwice, CreditedToClosed,
	Disputed, RefundedAtProvider, RefundFailed, UnknownPayment}

// Incident reports whether someone has to review the notice.
func (o Outcome) Incident() bool { return slices.Contains(incidentOutcomes, o) }

// credits reports whether the outcome credits money.
func (o Outcome) credits() bool {
	return o == Credited || o == CreditedLate || o == CreditedAfterCancel || o == CreditedToClosed
}

// decide returns the outcome of a notice for its session; session is nil if that provider has no such session.
func decide(n Notice, session *Session) Outcome {
	switch n.Type {
	case CheckoutPaid, CheckoutCancelled, CheckoutPending, CheckoutFailed, CheckoutExpired:
	default:
		return IgnoredType
	}
	switch {
	case session == nil:
		return UnknownSession
	case n.Type == CheckoutPending:
		return Awaited
	case n.Type == CheckoutPaid:
		return decidePaid(n, session)
	case session.Status == Paid || session.Status == Cancelled:
		return IgnoredAfterDecision
	case n.Type == CheckoutExpired && session.Status == Expired:
		return Lapsed
	}
	return Closed
}

func decidePaid(n Notice, session *Session) Outcome {
	switch {
	case n.Currency != money.Currency:
		return CurrencyMismatch
	case n.AmountCents != session.Amount:
		return AmountMismatch
	}
	switch session.Status {
	case Paid:
		if n.PaymentRef != session.PaymentRef {
			return PaidTwice
		}
		return AlreadyPaid
	case Cancelled:
		return CreditedAfterCancel
	case Expired:
		return CreditedLate
	default:
		return Credited
	}
}
