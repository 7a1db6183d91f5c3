package httpapi

import (
	"net/url"
	"regexp"
	"strconv"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/base/problem"
	texts "partnerd/internal/base/text"
	"partnerd/internal/infra/idempotency"
)

var pathID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkParameters rejects invalid path, query and header parameters. An invalid path is 404 (decision H47), all others
// are 400 (decision H26). Unknown query parameters are rejected too, so that a misspelt filter is not silently ignored.
// Defaults are written into the query.
func checkParameters(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			query, err := url.ParseQuery(c.Request().URL.RawQuery)
			if err != nil {
				return problem.ErrMalformed.Because("The query string is malformed.")
			}
			var issues []problem.Issue
			for name := range query {
				if op.parameter("query", name) == nil {
					issues = append(issues, problem.Issue{Path: name, Code: problem.IssueUnknownField,
						Message: "There is no such parameter."})
				}
			}
			for _, p := range op.parameters {
				var values []string
				switch p.in {
				case "path":
					if !pathID.MatchString(c.Param(p.name)) {
						return problem.ErrNotFound
					}
					continue
				case "query":
					values = query[p.name]
				case "header":
					continue // readKey checks the only header with rules
				}
				if len(values) == 0 && p.fallback != "" {
					query.Set(p.name, p.fallback)
					continue
				}
				if p.trimmed && len(values) == 1 {
					values = []string{texts.Trimmed(values[0])}
					query.Set(p.name, values[0])
				}
				issues = append(issues, p.check(values)...)
			}
			if len(issues) > 0 {
				return problem.ErrMalformed.Because("The request has invalid parameters; see issues.").With(issues...)
			}
			c.Request().URL.RawQuery = query.Encode()
			return next(c)
		}
	}
}

func (p parameter) check(values []string) []problem.Issue {
	switch {
	case len(values) == 0 && p.required:
		return []problem.Issue{{Path: p.name, Code: problem.IssueRequired, Message: "Is required."}}
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidValue,
			Message: "Must not be given more than once."}}
	}
	if p.trimmed && !texts.IsFree(values[0], false) {
		return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidValue, Message: unfitMessage(false)}}
	}
	var value any = values[0]
	if p.integer {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidType, Message: "Must be an integer."}}
		}
		value = n
	}
	if p.boolean {
		b, err := strconv.ParseBool(values[0])
		if err != nil || values[0] != strconv.FormatBool(b) {
			return []problem.Issue{{Path: p.name, Code: problem.IssueInvalidType, Message: "Must be true or false."}}
		}
		value = b
	}
	return issuesOf(p.schema.Validate(value), p.name)
}

// readKey binds the Idempotency-Key to the request. A body changes the fingerprint.
func (s *Server) readKey(op *operation) echo.MiddlewareFunc {
	header := op.parameter("header", idempotencyHeader)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if header == nil {
			return next
		}
		return func(c echo.Context) error {
			values := c.Request().Header.Values(idempotencyHeader)
			if header.required && (len(values) == 0 || len(values) == 1 && values[0] == "") {
				return errKeyRequired.With(problem.Issue{Path: idempotencyHeader, Code: problem.IssueRequired,
					Message: "Is required."})
			}
			if issues := header.check(values); len(issues) > 0 {
				return problem.ErrMalformed.Because("The header Idempotency-Key is not valid.").With(issues...)
			}
			if len(values) == 1 {
				r := requestOf(c.Request().Context())
				r.Idempotency = idempotency.Request{ApplicationID: r.Principal.ApplicationID,
					ClientID: r.Principal.ClientID, Endpoint: op.id, Key: values[0],
					Fingerprint: fingerprintOf(c.Request())}
			}
			return next(c)
		}
	}
}

func acceptedLanguage(header *string) language.Tag {
	if header == nil {
		return language.English
	}
	tag, _ := language.MatchStrings(labels, *header)
	return tag
}

var labels = language.NewMatcher([]language.Tag{language.English, language.French})
