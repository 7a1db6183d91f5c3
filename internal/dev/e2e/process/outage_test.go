package process_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/poll"
)

// TestADatabaseThatTakesNoWritesOrNoConnections: if the database temporarily accepts no writes, or no more connections,
// requests get 503. Everything recovers by itself. The doctor names each cause.
func TestADatabaseThatTakesNoWritesOrNoConnections(t *testing.T) {
	t.Parallel()
	_, servers := newServers(t, 1)
	server := servers[0]
	server.start(t)
	server.exec(t, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	front := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_BASE_URL=http://"+front,
		"PARTNERD_DATABASE_URL="+strings.Replace(server.url("program", "partnerd"), "disable", "prefer", 1),
		"PARTNERD_DATABASE_OWNER_URL="+server.url("owner", "partnerd"))
	p := in.serve(t, front)
	token := onboard(t, in, p.url, 100_000_000).link(t, p.url).AccessToken

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	load := &patientCallers{token: token} // fails on any response except 201, 409 and 503
	for range 3 {
		load.call(ctx, t, func() *process { return p })
	}
	load.more(t, 5)
	for _, fault := range []struct {
		begin, end []string
		finding    string
	}{
		{[]string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
			[]string{"SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only",
				"SELECT pg_reload_conf()"},
			"it accepts no writes"},
		{[]string{"ALTER ROLE program CONNECTION LIMIT 0",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'program'"},
			[]string{"ALTER ROLE program CONNECTION LIMIT -1"},
			`FATAL: too many connections for role "program" (SQLSTATE 53300)`},
	} {
		server.exec(t, fault.begin...)
		unavailable := func() bool {
			x := create(t.Context(), p.url, token, request{rand.Text(), "TAX", "PT"})
			return x.status == http.StatusServiceUnavailable && strings.Contains(string(x.body), "UNAVAILABLE")
		}
		await(t, 30*time.Second, unavailable, func() string { return fault.finding + ": calls are answered" })
		poll.Pause(t.Context(), time.Second) // callers check responses against 503
		r := in.cli(t, "doctor", "--json")
		var found diagnosis
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || r.code == 0 ||
			!slices.ContainsFunc(found.Findings, func(f finding) bool {
				return f.Check == "database" && f.Level == "fail" && strings.Contains(f.Found, fault.finding) &&
					!strings.Contains(f.Found, "tls error") && f.Do != ""
			}) {
			t.Errorf("%s: the doctor says %s (%v)", fault.finding, r.stdout, err)
		}
		server.exec(t, fault.end...)
		load.more(t, 5)
	}
	stop()
	load.all.Wait()
	load.lost(t, connect(t, server.url("owner", "partnerd")))
}
