package privacy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/consultation"
)

// left lists the columns of a consultation that an export leaves out, with the reason.
var left = map[string]string{
	"client_id":          "is the profile's",
	"updated_at":         "says no more than the other times",
	"callback_due_at":    "is a deadline of the search, which has its own end",
	"refunded_at":        "is the time of the wallet's transaction",
	"refunded_cents":     "is exported as the field Refunded",
	"erased_at":          "belongs to clients who can no longer sign in",
	"subject_sealed":     "is exported as the field Subject",
	"description_sealed": "is exported as the field Description",
	"phone_sealed":       "is the profile's phone when the consultation began",
	"lawyer_id":          "is about the lawyer",
	"crew":               "is about the search",
	"event_seq":          "is about the partner's events",
	"timer_at":           "is about the search and the call",
	"search_started_at":  "is about the search",
	"first_assigned_at":  "is about the search",
	"dial_attempts":      "is about setting up the call, as the next",
	"first_dial_at":      "is about setting up the call",
	"last_dial_at":       "is about setting up the call",
	"next_dial_at":       "is about setting up the call",
	"choose_by":          "is about setting up the call",
	"earlier_attempts":   "is about setting up the call",
	"callable_from":      "is about the search",
	"callable_until":     "is about the search",
	"alarmed_at":         "is about the operators",
	"call_cap_at":        "follows from the start of the call",
	"line_lost_at":       "is about the call while it runs",
	"reminders":          "is about the lawyer",
	"estimate_sec":       "is what the partner was told, as the next",
	"estimate_online":    "is what the partner was told",
	"estimate_idle":      "is what the partner was told",
	"estimate_ahead":     "is what the partner was told",
	"estimate_told_at":   "is what the partner was told",
	"trace_parent":       "is about requests to the service",
}

// filled returns a consultation with one field set.
func filled(t *testing.T, index []int) (c consultation.Consultation) {
	t.Helper()
	field := reflect.ValueOf(&c).Elem().FieldByIndex(index)
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	switch {
	case field.Kind() == reflect.String:
		field.SetString("set")
	case field.CanInt():
		field.SetInt(7)
	case field.Kind() == reflect.Bool:
		field.SetBool(true)
	case field.Type() == reflect.TypeFor[time.Time]():
		field.Set(reflect.ValueOf(time.Unix(7, 0)))
	default:
		t.Fatalf("a field of type %s is not filled", field.Type())
	}
	return c
}

// TestEveryColumnOfAConsultationIsExportedOrLeftForAReason sets each field alone and checks that the export shows it. A
// column without a field cannot be shown, so it needs a reason too.
func TestEveryColumnOfAConsultationIsExportedOrLeftForAReason(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	nothing := recordOf(consultation.Consultation{})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[consultation.Consultation]()) {
		if f.Anonymous {
			continue
		}
		column := columnOf(f)
		shown := !reflect.DeepEqual(recordOf(filled(t, f.Index)), nothing)
		if shown == (left[column] != "") {
			t.Errorf("%s: the export shows it: %t, and the reason not to is %q", f.Name, shown, left[column])
		}
		seen[column] = true
	}
	for _, column := range columnsOf(t, "consultations") {
		if !seen[column] && left[column] == "" {
			t.Errorf("column %s is neither exported nor left for a reason", column)
		}
		seen[column] = true
	}
	for column := range left {
		if !seen[column] {
			t.Errorf("%s is left and does not exist", column)
		}
	}
}

// columnOf returns the column of a field, or "" if it has none.
func columnOf(f reflect.StructField) string {
	_, after, _ := strings.Cut(f.Tag.Get("gorm"), "column:")
	name, _, _ := strings.Cut(after, ";")
	return name
}

func columnsOf(t *testing.T, table string) []string {
	t.Helper()
	var list string
	err := dbtest.New(t).Pool().QueryRow(t.Context(),
		`SELECT string_agg(column_name, ' ') FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1`, table).Scan(&list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(list)
}
