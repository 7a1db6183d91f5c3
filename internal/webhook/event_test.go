package webhook

import (
	"testing"
	"time"
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
