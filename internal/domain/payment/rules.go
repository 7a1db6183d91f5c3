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
	if fault := returnURLFault(raw, cfg.Sandbox); fault != "" {
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

// returnURLFault says what is wrong with a return URL (decision H31); empty when nothing is. A fragment is allowed: the
// outcome goes into the query before it.
func returnURLFault(raw string, sandbox bool) string {
	for _, b := range []byte(raw) {
		if b <= ' ' || b >= 0x7f || b == '\\' { // browsers and parsers disagree about what these mean
			return "Must be a URL of printable ASCII characters, without a backslash."
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return "Must be an absolute URL."
	}
	if u.User != nil {
		return "Must not carry credentials."
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "Has an impossible port."
		}
	}
	switch host := u.Hostname(); {
	case u.Scheme == "https":
		return ""
	case u.Scheme == "http" && sandbox && (strings.EqualFold(host, "localhost") || host == "127.0.0.1" ||
		host == "::1"):
		return ""
	case sandbox:
		return "Must be an https URL, or an http URL of this machine (localhost, 127.0.0.1, [::1])."
	default:
		return "Must be an https URL."
	}
}

// Return is where the client's browser goes after the checkout: the return URL with topup=success or topup=cancelled
// added to its query (decision H31). Whether the money has arrived is for the wallet to tell.
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

// statusAt is the status of a session that is stored as st and can be paid before expires.
func statusAt(st Status, expires, now time.Time) Status {
	if st == Open && !now.Before(expires) {
		return Expired
	}
	return st
}

// Outcome of a notice, as recorded.
type Outcome string

// What becomes of notices.
const (
	Credited             Outcome = "credited"
	CreditedLate         Outcome = "credited_late"         // the session had expired; the money was taken all the same
	CreditedAfterCancel  Outcome = "credited_after_cancel" // likewise
	AlreadyPaid          Outcome = "already_paid"          // another notice said so before
	Closed               Outcome = "cancelled"
	IgnoredAfterDecision Outcome = "cancel_ignored" // paid or cancelled before
	Awaited              Outcome = "pending"        // the money is on its way
	Lapsed               Outcome = "expired"        // as we knew
	IgnoredType          Outcome = "ignored"        // a type that we do not act on
	PaidTwice            Outcome = "paid_twice"     // by another payment than the one credited
	UnknownSession       Outcome = "unknown_session"
	AmountMismatch       Outcome = "amount_mismatch"
	CurrencyMismatch     Outcome = "currency_mismatch"
	CreditedToClosed     Outcome = "credited_to_closed" // the client is disabled or erased: it goes back to its source
	Disputed             Outcome = "disputed"
	RefundedAtProvider   Outcome = "refunded_at_provider" // by somebody who was there, not by us
	RefundConfirmed      Outcome = "refund_confirmed"     // one of ours
	// one of ours that came to nothing: the client has not got the money
	RefundFailed Outcome = "refund_failed"
	// a dispute or refund of a payment that we have not credited, or not yet
	UnknownPayment Outcome = "unknown_payment"
)

// incidentOutcomes are those that a person has to look into: money may have been taken that nobody got, or is gone that
// somebody has spent. The index payment_notices_incidents names the same ones.
var incidentOutcomes = []Outcome{UnknownSession, AmountMismatch, CurrencyMismatch, PaidTwice, CreditedToClosed,
	Disputed, RefundedAtProvider, RefundFailed, UnknownPayment}

// Incident tells whether a person has to look into it.
func (o Outcome) Incident() bool { return slices.Contains(incidentOutcomes, o) }

// credits tells whether the outcome moves money.
func (o Outcome) credits() bool {
	return o == Credited || o == CreditedLate || o == CreditedAfterCancel || o == CreditedToClosed
}

// decide says what a notice means for the session it names; session is nil when there is none of that provider.
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
