package main

import (
	"errors"
	"fmt"
	"testing"

	"partnerd/internal/base/problem"
)

// TestFaultsAreExplainedToOperators checks that an operator reads what is wrong, without API codes or hints about a
// response that they do not see.
func TestFaultsAreExplainedToOperators(t *testing.T) {
	t.Parallel()
	invalid := problem.ErrValidation.With(problem.Issue{Path: "url", Code: problem.IssueInvalidURL,
		Message: "Must be an absolute URL."})
	for want, err := range map[string]error{
		"plain": errors.New("plain"),
		"The resource was not found. Check the ID.": problem.ErrNotFound,
		"url: Must be an absolute URL.":             invalid,
		`webhook URL "x": There is no such event. url: Must be an absolute URL.`: fmt.Errorf("webhook URL %q: %w", "x",
			invalid.With(problem.Issue{Code: problem.IssueInvalidValue, Message: "There is no such event."})),
	} {
		if got := explain(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
