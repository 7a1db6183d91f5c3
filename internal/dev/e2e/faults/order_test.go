package faults

import (
	"testing"

	"partnerd/internal/domain/webhook"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	begun := []webhook.Type{webhook.Created, webhook.PaymentAuthorized, webhook.Matching}
	for _, tt := range []struct {
		legal bool
		rest  []webhook.Type
	}{
		{true, nil},
		{true, []webhook.Type{webhook.Cancelled, webhook.Refunded}},
		{true, []webhook.Type{webhook.Assigned, webhook.CallStarted, webhook.CallEnded, webhook.NoteAvailable,
			webhook.Completed}},
		{true, []webhook.Type{webhook.Assigned, webhook.Matching, webhook.Assigned, webhook.Expired, webhook.Refunded}},
		{true, []webhook.Type{webhook.Assigned, webhook.CallStarted, webhook.CallEnded, webhook.NoteAvailable,
			webhook.Completed, webhook.NoteAvailable, webhook.Refunded}},
		{false, []webhook.Type{webhook.Assigned, webhook.Assigned}},
		{false, []webhook.Type{webhook.CallStarted}},
		{false, []webhook.Type{webhook.Cancelled}}, // half a step
		{false, []webhook.Type{webhook.Cancelled, webhook.Refunded, webhook.Assigned}},
		{false, []webhook.Type{webhook.Assigned, webhook.CallStarted, webhook.CallEnded, webhook.Completed,
			webhook.NoteAvailable}},
	} {
		if err := Order(append(begun[:3:3], tt.rest...)); (err == nil) != tt.legal {
			t.Errorf("%v: %v", tt.rest, err)
		}
	}
	if Order(begun[:2]) == nil || Order(begun[1:]) == nil {
		t.Error("a beginning that is none is legal")
	}
}
