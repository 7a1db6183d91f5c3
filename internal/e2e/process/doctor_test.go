package process_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The doctor finds a deployment that works in order, says of each fault what helps, fails then, and changes nothing.
func TestDoctor(t *testing.T) {
	t.Parallel()
	in := install(t)
	if r := in.cli(t, "doctor"); r.code == 0 || !strings.Contains(r.stdout, "there is no installation") {
		t.Errorf("before the first start: %+v", r)
	}
	server := in.serve(t, freeAddress(t))
	db := in.database(t)
	const all = everything + ` || (SELECT count(*) FROM audit_entries) || (SELECT string_agg(kid, ' ') FROM signing_keys) || (SELECT max(version_id) FROM goose_db_version)`
	before := query(t, db, all)

	type result struct {
		OK       bool
		Findings []struct{ Check, Level, Found, Do string }
	}
	var healthy result
	in.ask(t, &healthy, "doctor", "--json")
	level := func(r result, check string) string {
		i := slices.IndexFunc(r.Findings, func(f struct{ Check, Level, Found, Do string }) bool { return f.Check == check })
		if i < 0 {
			return "missing"
		}
		return r.Findings[i].Level
	}
	for _, check := range []string{"settings", "note key", "database", "clock", "privileges", "schema", "signing keys", "address"} {
		if got := level(healthy, check); got != "ok" {
			t.Errorf("%s is %s: %+v", check, got, healthy)
		}
	}
	if !healthy.OK {
		t.Errorf("%+v", healthy)
	}

	var keys struct{ MasterKey string }
	in.ask(t, &keys, "key", "generate", "--json")
	for check, env := range map[string][]string{
		"signing keys": {"PARTNERD_MASTER_KEY=" + keys.MasterKey},
		"master key":   {"PARTNERD_MASTER_KEY=nonsense"},
		"note key":     {"PARTNERD_NOTE_PUBLIC_KEY=nonsense"},
		"mail":         {"PARTNERD_MAIL_SERVER=smtp://127.0.0.1:1"},
		"settings":     {"PARTNERD_WEBHOOK_RETENTION=1h"},
		"proxy":        {"PARTNERD_TRUSTED_PROXIES=0.0.0.0/0"},
	} {
		ill := *in
		ill.env = append(slices.Clone(in.env), env...)
		r := ill.cli(t, "doctor", "--json")
		var found result
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || r.code == 0 || found.OK || level(found, check) != "fail" {
			t.Errorf("%s: %+v, %v", check, r, err)
		}
		for _, f := range found.Findings {
			if f.Level != "ok" && f.Do == "" {
				t.Errorf("%s: nothing is said to do about %+v", check, f)
			}
		}
	}
	apart := *in
	apart.env = append(slices.Clone(in.env), "PARTNERD_VALKEY_URL=valkey://127.0.0.1:1")
	var degraded result
	if apart.ask(t, &degraded, "doctor", "--json"); level(degraded, "quotas") != "warn" || !degraded.OK {
		t.Errorf("without the server of quotas: %+v", degraded)
	}
	apart.env = append(slices.Clone(in.env), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	degraded = result{}
	if apart.ask(t, &degraded, "doctor", "--json"); level(degraded, "collector") != "warn" || !degraded.OK {
		t.Errorf("without the collector: %+v", degraded)
	}
	takes := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer takes.Close()
	apart.env = append(slices.Clone(in.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+takes.URL)
	var watched result
	if apart.ask(t, &watched, "doctor", "--json"); level(watched, "collector") != "ok" {
		t.Errorf("with a collector: %+v", watched)
	}
	if after := query(t, db, all); after[0] != before[0] {
		t.Errorf("left behind: %s, was %s", after[0], before[0])
	}
	server.terminate(t)
}
