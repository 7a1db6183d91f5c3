// Package problem is the one error type for what a caller may know: everything else is a plain wrapped Go error,
// which callers see as a bare INTERNAL_ERROR and operators find in the log under the request id.
//
// Codes are declared with [Declare] beside the rule that raises them; [Catalogue] lists them so that a test can
// prove that the contract names exactly the same set.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the class of a problem; the HTTP layer maps each kind to one status.
type Kind int

// The kinds, with the status of specification section 7 that each becomes.
const (
	Malformed        Kind = iota + 1 // 400: header, parameter or syntax
	Unauthorized                     // 401: token missing, invalid or expired
	Forbidden                        // 403: scope missing
	NotFound                         // 404: absent, or not the caller's
	MethodNotAllowed                 // 405
	Conflict                         // 409: a business rule refuses
	Unprocessable                    // 422: the body breaks the contract
	RateLimited                      // 429
	Unavailable                      // 503: try again later
)

// Issue is one fault of a request (decision H24).
type Issue struct {
	Path    string `json:"path"`    // dotted path of the field, header or parameter; empty for the whole body
	Code    string `json:"code"`    // one of the Issue… constants
	Message string `json:"message"` // English, for developers
	Why     *Why   `json:"-"`       // for pages, which say it in the reader's language; nil: by the code
}

// Issue codes (decision H24).
const (
	IssueRequired       = "required"
	IssueInvalidType    = "invalid_type"
	IssueTooShort       = "too_short"
	IssueTooLong        = "too_long"
	IssueTooSmall       = "too_small"
	IssueNotInCatalog   = "not_in_catalog"
	IssueInvalidURL     = "invalid_url"
	IssueInvalidValue   = "invalid_value"
	IssueUnknownField   = "unknown_field"
	IssueWaiverRequired = "waiver_required"
)

// Error is a refusal that the caller may see.
type Error struct {
	Kind       Kind
	Code       string        // stable machine code, for example INSUFFICIENT_FUNDS
	Message    string        // English, for developers
	Issues     []Issue       // faults in detail; nil when there are none to name
	RetryAfter time.Duration // when positive, when to try again
}

var catalogue []*Error

// Declare makes a problem and adds it to the catalogue. Call it from package-level variables only.
func Declare(kind Kind, code, message string) *Error {
	e := &Error{Kind: kind, Code: code, Message: message}
	catalogue = append(catalogue, e)
	return e
}

// Catalogue returns every declared problem, in no particular order.
func Catalogue() []*Error { return slices.Clone(catalogue) }

// General problems that no single rule owns (decision H25).
var (
	ErrMalformed        = Declare(Malformed, "INVALID_REQUEST", "The request is malformed.")
	ErrNotFound         = Declare(NotFound, "NOT_FOUND", "The resource was not found. Check the ID.")
	ErrMethodNotAllowed = Declare(MethodNotAllowed, "METHOD_NOT_ALLOWED",
		"This method is not allowed for this path; see the Allow header.")
	ErrValidation  = Declare(Unprocessable, "VALIDATION_ERROR", "The request body is not valid; see issues.")
	ErrRateLimited = Declare(RateLimited, "RATE_LIMITED", "Too many requests; see Retry-After.")
	ErrUnavailable = Declare(Unavailable, "UNAVAILABLE", "The service is temporarily unavailable; see Retry-After.")
	// ErrPreviousSecret refuses a rotation that would end a secret which may be the one in production.
	ErrPreviousSecret = Declare(Conflict, "PREVIOUS_SECRET_ACTIVE",
		"The previous secret still works, and a rotation would end it.")
	// ErrNoPreviousSecret refuses to end the current secret at once when no other would work.
	ErrNoPreviousSecret = Declare(Conflict, "NO_PREVIOUS_SECRET",
		"There is no active previous secret to keep. Rotate without `keepPrevious`.")
)

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Message)
	for _, i := range e.Issues {
		fmt.Fprintf(&b, " [%s %s]", i.Path, i.Code)
	}
	return b.String()
}

// Is makes errors.Is match by code, so that a copy with issues still matches the declared variable.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// With returns a copy that names issues, sorted by path and code: the same faults make the same answer.
func (e *Error) With(issues ...Issue) *Error {
	c := *e
	c.Issues = append(slices.Clone(e.Issues), issues...)
	slices.SortStableFunc(c.Issues,
		func(a, b Issue) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code)) })
	return &c
}

// Because returns a copy with a message of its own.
func (e *Error) Because(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// After returns a copy that asks the caller to wait d before the next try.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// As returns the problem in err's chain, if there is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// PreviousSecretWorks is [ErrPreviousSecret] that says until when.
func PreviousSecretWorks(until time.Time) error {
	return ErrPreviousSecret.Because("The previous secret works until %s, and a rotation would end it now. "+
		"Deploy the current secret first, or set `endPrevious` or `keepPrevious` to true.",
		until.UTC().Format(time.RFC3339))
}
