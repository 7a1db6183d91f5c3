package webhook

import (
	"bytes"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/internal/clock"
	"partnerd/internal/postgres"
	"partnerd/openapi"
)

func TestBodyHasTheKeysOfTheSpecificationAndOmitsThoseWithoutValue(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 11, 30, 0, 120_999_000, time.FixedZone("", 2*3600))
	zero, seconds := 0, 754
	for name, c := range map[string]struct {
		ref   string
		event Event
		want  string
	}{
		"all": {"A&B <7> é", Event{Completed, "COMPLETED", &seconds},
			`{"id":"evt_1","type":"consultation.completed","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"COMPLETED","competence":"TAX","externalRef":"A&B <7> é","durationSec":754}}`},
		"none": {"", Event{Created, "DRAFT", nil},
			`{"id":"evt_1","type":"consultation.created","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"DRAFT","competence":"TAX"}}`},
		"a call of no length": {"", Event{CallEnded, "CALL_ENDED", &zero},
			`{"id":"evt_1","type":"consultation.call_ended","createdAt":"2026-05-04T09:30:00.120999Z","data":{"id":"con_1","status":"CALL_ENDED","competence":"TAX","durationSec":0}}`},
	} {
		got, err := encodeBody("evt_1", Subject{"app_1", "con_1", "TAX", c.ref}, c.event, at)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
	if _, err := encodeBody("evt_1", Subject{}, Event{Type: "consultation.misspelt"}, at); err == nil {
		t.Error("an unknown type was accepted")
	}
}

// A test event is what the contract promises of its type: the status of the consultation, and how long the call was.
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
		schema, err := c.Compile(openapi.DocumentURL + "#/webhooks/" + string(kind) + "/post/requestBody/content/application~1json/schema")
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
