package main

import (
	"context"
	"strings"
	"testing"

	"partnerd/internal/app/config"
)

// TestListsOfWebhooksTakeOneToAHundred checks that a limit is rejected before anything is opened.
func TestListsOfWebhooksTakeOneToAHundred(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 101} {
		for name, c := range map[string]interface {
			Run(context.Context, *config.Config) error
		}{"events": &webhookEventsCmd{Limit: n}, "deliveries": &webhookDeliveriesCmd{Limit: n}} {
			if err := c.Run(t.Context(), nil); err == nil ||
				!strings.Contains(err.Error(), "--limit must be 1 to 100") {
				t.Errorf("%s --limit %d: %v", name, n, err)
			}
		}
	}
	for _, n := range []int{1, 20, 100} {
		if err := checkLimit(n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}
