package process_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// setback is a deployment whose standby missed commits and was promoted. The process keeps running.
type setback struct {
	*drill
	p       standbyPair
	in      *installation
	serving *process
	kept    *oauth2.Token // of a client with money
}

func newSetback(t *testing.T) *setback {
	t.Helper()
	p, front := newPair(t), freeAddress(t)
	p[0].exec(t, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+p.both("program"),
		"PARTNERD_DATABASE_OWNER_URL="+p.both("owner"), "PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL=http://"+front)
	serving := in.serve(t, front)
	crm := onboard(t, in, serving.url, 100_000_000)
	return &setback{&drill{T: t, partner: crm, url: serving.url}, p, in, serving, crm.link(t, serving.url)}
}

// lose makes the standby miss the actions of callers and of meanwhile, loses the primary, and promotes the standby. It
// returns the acknowledged consultations that are lost.
func (s *setback) lose(meanwhile func()) (made []string) {
	s.Helper()
	primary, standby := connect(s.T, s.p[0].url("owner", "partnerd")), connect(s.T, s.p[1].url("owner", "partnerd"))
	const marks = "SELECT coalesce(max(count), 0)::text FROM database_marks"
	const replayed = "SELECT pg_last_wal_replay_lsn()::text"
	await(s.T, deadline, func() bool { return query(s.T, standby, marks)[0] != "0" },
		func() string { return "nothing is marked" })
	written := query(s.T, primary, "SELECT pg_current_wal_lsn()::text")[0]
	await(s.T, deadline, func() bool {
		return query(s.T, standby, "SELECT (pg_last_wal_replay_lsn() >= '"+written+"')::text")[0] == "true"
	}, func() string { return "the standby does not follow" })
	s.p[1].exec(s.T, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	await(s.T, deadline,
		func() bool { return len(query(s.T, primary, "SELECT pid::text FROM pg_stat_replication")) == 0 },
		func() string { return "the standby still follows" })
	at, lastOfStandby := query(s.T, standby, replayed)[0], query(s.T, standby, marks)[0]

	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	load := &patientCallers{token: s.kept.AccessToken}
	load.call(ctx, s.T, func() *process { return s.serving })
	load.more(s.T, 3)
	meanwhile()
	await(s.T, deadline, func() bool { return query(s.T, primary, marks)[0] > lastOfStandby },
		func() string { return "nothing more is marked" })
	stop()
	load.all.Wait()
	if now := query(s.T, standby, replayed)[0]; now != at {
		s.Fatalf("the standby continued: %s, was %s", now, at)
	}
	made = query(s.T, primary, "SELECT id FROM consultations ORDER BY id")
	s.p[0].kill()
	s.p.promote(s.T)
	said := s.serving.output.String
	await(s.T, deadline, func() bool { return strings.Contains(said(), "the database went back") }, said)
	there := query(s.T, standby, "SELECT id FROM consultations")
	return slices.DeleteFunc(made, func(id string) bool { return slices.Contains(there, id) })
}

// doctor returns the doctor's finding about a restore, or an empty one.
func (s *setback) doctor() finding {
	s.Helper()
	r := s.in.cli(s.T, "doctor", "--json")
	var d diagnosis
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		s.Fatalf("%v: %+v", err, r)
	}
	i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.Check == "restore" })
	if i < 0 {
		return finding{}
	}
	return d.Findings[i]
}

// goesOn asserts that the process serves as before, and that it reported once that the database went back.
func (s *setback) goesOn(token string) {
	s.Helper()
	if f := s.doctor(); f != (finding{}) {
		s.Errorf("the doctor, settled: %+v", f)
	}
	load := &patientCallers{token: token}
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	load.call(ctx, s.T, func() *process { return s.serving })
	load.more(s.T, 3)
	stop()
	load.all.Wait()
	load.lost(s.T, connect(s.T, s.p[1].url("owner", "partnerd")))
	if n := strings.Count(s.serving.output.String(), "the database went back"); n != 1 {
		s.Errorf("said %d times", n)
	}
}

// TestFailoverThatLosesCommitsIsNoticed is part of "make failover". An asynchronous standby misses commits and is
// promoted. The process reports it, the doctor fails, and "partnerd restored" without a time settles it. The processes
// keep running.
func TestFailoverThatLosesCommitsIsNoticed(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_FAILOVER") == "" {
		t.Skip("make failover")
	}
	t.Parallel()
	s := newSetback(t)
	s.lose(func() {})
	if f := s.doctor(); f.Level != "fail" || !strings.Contains(f.Do, "partnerd restored") {
		t.Errorf("the doctor: %+v", f)
	}
	var report struct {
		To           time.Time
		Applications int `json:"applicationsMovedOn"`
	}
	s.in.ask(t, &report, "restored", "--json", "--reason", "The standby missed commits.")
	if report.To.IsZero() || report.Applications == 0 {
		t.Errorf("restored: %+v", report)
	}
	s.goesOn(s.kept.AccessToken)
}

// TestFailoverComparesWithTheLostDatabase is part of "make failover". The former primary is started apart from the
// others. From it, "partnerd restored" without a time repeats what clients and partners did and the standby missed.
func TestFailoverComparesWithTheLostDatabase(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_FAILOVER") == "" {
		t.Skip("make failover")
	}
	t.Parallel()
	s := newSetback(t)
	erased, email := s.client(s.in)
	_, other := s.client(s.in)
	ended := s.linkAs(other)
	var next oauth2.Token
	lost := s.lose(func() {
		var x answer
		if x, next = s.refresh(s.kept.RefreshToken); x.status != http.StatusOK {
			t.Fatalf("refresh: %d %s", x.status, x.body)
		}
		revoked := url.Values{"token": {ended.RefreshToken},
			"client_id": {s.app.ClientID}, "client_secret": {s.app.ClientSecret}}
		if x := post(t.Context(), s.url+"/api/oauth/revoke", revoked); x.status != http.StatusOK {
			t.Fatalf("revoke: %d %s", x.status, x.body)
		}
		s.erase(email)
	})
	former := s.p[0]
	_, former.port, _ = strings.Cut(freeAddress(t), ":") // an address that no process uses
	former.start(t)
	var report struct {
		To         time.Time
		Compared   bool
		Gone       []struct{ ID string }
		Erased     []string
		NotErased  []any
		LinksEnded int
		TokensKept int
	}
	s.in.ask(t, &report, "restored", "--json", "--lost-database-url", former.url("owner", "partnerd"),
		"--reason", "The standby missed commits.")
	gone := map[string]bool{}
	for _, g := range report.Gone {
		gone[g.ID] = true
	}
	if told := slices.Sorted(maps.Keys(gone)); len(lost) < 3 ||
		!slices.Equal(told, slices.Sorted(slices.Values(lost))) {
		t.Errorf("%v are reported as gone, want %v", told, lost)
	}
	if !report.Compared || report.To.IsZero() || report.LinksEnded != 1 || report.TokensKept != 1 ||
		len(report.NotErased) > 0 || !slices.Equal(report.Erased, []string{erased}) {
		t.Errorf("restored: %+v", report)
	}
	db := connect(t, s.p[1].url("owner", "partnerd"))
	if len(query(t, db, "SELECT id FROM clients WHERE erased_at IS NOT NULL AND id = $1", erased)) != 1 ||
		len(query(t, db, "SELECT client_id FROM vault.client_keys WHERE client_id = $1", erased)) != 0 {
		t.Error("the client who was erased is back")
	}
	if x := s.call(http.MethodGet, "/api/v1/me", ended.AccessToken, ""); x.status != http.StatusUnauthorized {
		t.Errorf("the ended connection is active: %d", x.status)
	}
	x, newest := s.refresh(next.RefreshToken)
	if x.status != http.StatusOK {
		t.Fatalf("the refresh token that the standby missed: %d %s", x.status, x.body)
	}
	s.goesOn(newest.AccessToken)
	former.kill()
	s.in.booksAgree(t)
}
