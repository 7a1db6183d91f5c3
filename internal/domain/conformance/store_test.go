package conformance

import (
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// A late report for the previous URL does not replace the report for the current one.
func TestALateReportReplacesNoLaterOne(t *testing.T) {
	t.Parallel()
	db, ctx := dbtest.New(t), t.Context()
	err := dbtest.Owner(t, db).InTx(ctx, func(tx postgres.Tx) error {
		return dbtest.Exec(ctx, tx,
			`INSERT INTO applications (id, name, secret_hash, redirect_uris, scopes, created_at, updated_at)
			VALUES ('app_1', 'BigCRM', '\x01', '{https://crm.example/cb}', '{wallet:read}', now(), now())`)
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, r := range []struct {
		url string
		at  time.Time
	}{
		{"https://crm.example/first", began}, {"https://crm.example/now", began.Add(time.Second)},
		{"https://crm.example/before", began},
	} {
		if err := save(ctx, db.Read(), "app_1", r.url, Report{At: r.at}); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := last(ctx, db.Read(), "app_1", "https://crm.example/now")
	if err != nil || kept == nil {
		t.Errorf("the report of the URL that is set now: %v %v", kept, err)
	}
}
