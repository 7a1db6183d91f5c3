package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"partnerd/internal/base/problem"
)

// issuesOf lists the individual issues of a validation error. prefix is put before every path: the name of a parameter,
// or "" for a body.
func issuesOf(err error, prefix string) []problem.Issue {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return nil
	}
	var out []problem.Issue
	collect(v, prefix, &out)
	return out
}

func collect(v *jsonschema.ValidationError, prefix string, out *[]problem.Issue) {
	if len(v.Causes) > 0 {
		for _, c := range v.Causes {
			collect(c, prefix, out)
		}
		return
	}
	path := join(prefix, v.InstanceLocation...)
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*out = append(*out, problem.Issue{Path: join(path, name), Code: problem.IssueRequired,
				Message: "Is required."})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*out = append(*out, problem.Issue{Path: join(path, name), Code: problem.IssueUnknownField,
				Message: "There is no such field."})
		}
	default:
		code, message := describe(v.ErrorKind)
		*out = append(*out, problem.Issue{Path: path, Code: code, Message: message})
	}
}

// describe returns the code and our stable message for an invalid value.
func describe(k jsonschema.ErrorKind) (code, message string) {
	switch k := k.(type) {
	case *kind.Type:
		return problem.IssueInvalidType, "Must be of type " + strings.Join(k.Want, " or ") + ", not " + k.Got + "."
	case *kind.MinLength:
		return problem.IssueTooShort, "Must have at least " + characters(k.Want) + "."
	case *kind.MaxLength:
		return problem.IssueTooLong, "Must have at most " + characters(k.Want) + "."
	case *kind.Minimum:
		return problem.IssueTooSmall, "Must be at least " + k.Want.RatString() + "."
	case *kind.Maximum:
		return problem.IssueInvalidValue, "Must be at most " + k.Want.RatString() + "."
	case *kind.Const:
		if _, boolean := k.Got.(bool); boolean && k.Want == true {
			return problem.IssueWaiverRequired, "The client must have acknowledged this: only true is accepted."
		}
		return problem.IssueInvalidValue, fmt.Sprintf("Must be %v.", k.Want)
	case *kind.Enum:
		return problem.IssueInvalidValue, "Must be one of: " + listed(k.Want) + "."
	case *kind.Format:
		if k.Want == "uri" {
			return problem.IssueInvalidURL, "Must be an absolute URL."
		}
		if k.Want == "date-time" {
			return problem.IssueInvalidValue, "Must be a time of RFC 3339 with its zone, such as " +
				"2026-06-01T08:30:00Z. In a query a + is written %2B."
		}
		return problem.IssueInvalidValue, "Must have the format " + k.Want + "."
	default:
		return problem.IssueInvalidValue, "Is not valid."
	}
}

func listed(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ", ")
}

func characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return fmt.Sprintf("%d characters", n)
}

func join(prefix string, names ...string) string {
	if prefix != "" {
		names = append([]string{prefix}, names...)
	}
	return strings.Join(names, ".")
}
