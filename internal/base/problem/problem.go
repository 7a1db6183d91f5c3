// Package problem is the only error type whose content callers may see. Any other error is a plain wrapped Go error:
// callers see INTERNAL_ERROR, and operators find it in the log under the request ID.
//
// Codes are declared with [Declare] beside the rule that returns them. [Catalogue] lists them, so that a test can prove
// that the contract names exactly the same set.
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

// The kinds, with the status of specification section 7 for each.
const (
	Malformed        Kind = iota + 1 // 400: header, parameter or syntax
	Unauthorized                     // 401: token missing, invalid or expired
	Forbidden                        // 403: scope missing
	NotFound                         // 404: absent, or not the caller's
	MethodNotAllowed                 // 405
	Conflict                         // 409: a business rule rejects it
	Unprocessable                    // 422: the body violates the contract
	RateLimited                      // 429
	Unavailable                      // 503: try again later
)

// Issue is one error in a request (decision H24).
type Issue struct {
	Path    string `json:"path"`    // dotted path of the field, header or parameter; empty for the whole body
	Code    string `json:"code"`    // one of the Issue… constants
	Message string `json:"message"` // English, for developers
	Why     *Why   `json:"-"`       // for pages in the reader's language; nil: use the code
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

// Error is an error that the caller may see.
type Error struct {
	Kind       Kind
	Code       string        // stable machine code, for example INSUFFICIENT_FUNDS
	Message    string        // English, for developers
	Issues     []Issue       // details; nil if there are none
	RetryAfter time.Duration // if positive, how long to wait before retrying
}

var catalogue []*Error

// Declare creates a problem and adds it to the catalogue. Call it from package-level variables only.
func Declare(kind Kind, code, message string) *Error {
	e := &Error{Kind: kind, Code: code, Message: message}
	catalogue = append(catalogue, e)
	return e
}

// Catalogue returns every declared problem, in no particular order.
func Catalogue() []*Error { return slices.Clone(catalogue) }

// General problems that belong to no single rule (decision H25).
var (
	ErrMalformed        = Declare(Malformed, "INVALID_REQUEST", "The request is malformed.")
	ErrNotFound         = Declare(NotFound, "NOT_FOUND", "The resource was not found. Check the ID.")
	ErrMethodNotAllowed = Declare(MethodNotAllowed, "METHOD_NOT_ALLOWED",
		"This method is not allowed for this path; see the Allow header.")
	ErrValidation  = Declare(Unprocessable, "VALIDATION_ERROR", "The request body is not valid; see issues.")
	ErrRateLimited = Declare(RateLimited, "RATE_LIMITED", "Too many requests; see Retry-After.")
	ErrUnavailable = Declare(Unavailable, "UNAVAILABLE", "The service is temporarily unavailable; see Retry-After.")
	// ErrPreviousSecret rejects a rotation that would end a secret which may be in use in production.
	ErrPreviousSecret = Declare(Conflict, "PREVIOUS_SECRET_ACTIVE",
		"The previous secret still works, and a rotation would end it.")
	// ErrNoPreviousSecret refuses to end the current secret immediately when no other secret would work.
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

// With returns a copy with issues, sorted by path and code: the same errors give the same response.
func (e *Error) With(issues ...Issue) *Error {
	c := *e
	c.Issues = append(slices.Clone(e.Issues), issues...)
	slices.SortStableFunc(c.Issues,
		func(a, b Issue) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code)) })
	return &c
}

// Because returns a copy with another message.
func (e *Error) Because(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// After returns a copy that asks the caller to wait d before retrying.
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

// PreviousSecretWorks returns [ErrPreviousSecret] with the time until which that secret works.
func PreviousSecretWorks(until time.Time) error {
	return ErrPreviousSecret.Because("The previous secret works until %s, and a rotation would end it now. "+
		"Deploy the current secret first, or set `endPrevious` or `keepPrevious` to true.",
		until.UTC().Format(time.RFC3339))
}
