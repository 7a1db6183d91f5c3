package webhook

import (
	"bytes"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
	"partnerd/openapi"
)

func TestBodyHasTheKeysOfTheSpecificationAndOmitsThoseWithoutValue(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 11, 30, 0, 120_999_000, time.FixedZone("", 2*3600))
	zero, seconds, back := 0, 754, money.Cents(2000)
	due := time.Date(2026, 5, 5, 9, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ref   string
		event Event
		want  string
	}{
		"all": {"A&B <7> é", Event{Type: Completed, Status: "COMPLETED", DurationSec: &seconds},
			`{"id":"evt_1","type":"consultation.completed","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"COMPLETED","competence":"TAX","externalRef":"A&B <7> é","durationSec":754}}`},
		"none": {"", Event{Type: Created, Status: "DRAFT"},
			`{"id":"evt_1","type":"consultation.created","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"DRAFT","competence":"TAX"}}`},
		"a call of no length": {"", Event{Type: CallEnded, Status: "CALL_ENDED", DurationSec: &zero},
			`{"id":"evt_1","type":"consultation.call_ended","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"CALL_ENDED","competence":"TAX","durationSec":0}}`},
		"an end": {"", Event{Type: Expired, Status: "EXPIRED", EndReason: "GUARANTEE_MISSED", Refunded: &back},
			`{"id":"evt_1","type":"consultation.expired","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"EXPIRED","competence":"TAX","endReason":"GUARANTEE_MISSED","refundedCents":2000}}`},
		"a promise": {"", Event{Type: PendingCallback, Status: "PENDING_CALLBACK", CallbackDueAt: &due},
			`{"id":"evt_1","type":"consultation.pending_callback","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"PENDING_CALLBACK","competence":"TAX","callbackDueAt":"2026-05-05T09:30:00.000000Z"}}`},
	} {
		got, err := encodeBody("evt_1", Subject{ApplicationID: "app_1", ConsultationID: "con_1", Competence: "TAX",
			ExternalRef: c.ref}, c.event, at)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
	if _, err := encodeBody("evt_1", Subject{}, Event{Type: "consultation.misspelt"}, at); err == nil {
		t.Error("an unknown type was accepted")
	}
}

// A test event matches the contract for its type: the status of the consultation, and the duration of the call.
func TestEveryTestEventIsAsTheContractSays(t *testing.T) {
	t.Parallel()
	asJSON, err := openapi.JSON(openapi.Partner)
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := openapi.Schemas(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	for _, kind := range Types {
		schema, err := c.Compile(openapi.DocumentURL + "#/webhooks/" + string(kind) +
			"/post/requestBody/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		w.tx(func(tx postgres.Tx) error {
			d, err := w.svc.SendTest(t.Context(), tx, app, kind)
			if err != nil {
				return err
			}
			event, err := w.svc.Event(t.Context(), tx, app, d.EventID)
			if err != nil {
				return err
			}
			body, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Body))
			if err != nil {
				return err
			}
			if err := schema.Validate(body); err != nil {
				t.Errorf("%s: %v\n%s", kind, err, event.Body)
			}
			return nil
		})
	}
}
