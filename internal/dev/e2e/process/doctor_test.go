package process_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// diagnosis is the output of "partnerd doctor --json".
type diagnosis struct {
	OK       bool
	Findings []finding
}

type finding struct{ Check, Level, Found, Do string }

// level returns the level of a check's first finding.
func (d diagnosis) level(check string) string {
	i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.Check == check })
	if i < 0 {
		return "missing"
	}
	return d.Findings[i].Level
}

// TestDoctor: the doctor finds nothing wrong with a working deployment. For each failure it says what helps and exits
// with an error. It changes nothing.
func TestDoctor(t *testing.T) {
	t.Parallel()
	in := install(t)
	if r := in.cli(t, "doctor"); r.code != 0 || !strings.Contains(r.stdout,
		"it is new and will be set up at the first start") {
		t.Errorf("before the first start: %+v", r)
	}
	server := in.serve(t, freeAddress(t))
	db := in.database(t)
	const all = everything + ` || (SELECT count(*) FROM audit_entries) || (SELECT string_agg(kid, ' ') FROM signing_keys) || (SELECT max(version_id) FROM goose_db_version)`
	before := query(t, db, all)

	var healthy diagnosis
	in.ask(t, &healthy, "doctor", "--json")
	level := diagnosis.level
	for _, check := range []string{
		"settings", "note key", "database", "clock", "privileges", "schema", "signing keys", "address", "data folder",
	} {
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
		"settings":     {"PARTNERD_WEBHOOK_RETENTION=0"},
		"proxy":        {"PARTNERD_TRUSTED_PROXIES=0.0.0.0/0"},
	} {
		ill := *in
		ill.env = append(slices.Clone(in.env), env...)
		r := ill.cli(t, "doctor", "--json")
		var found diagnosis
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || r.code == 0 || found.OK ||
			level(found, check) != "fail" {
			t.Errorf("%s: %+v, %v", check, r, err)
		}
		for _, f := range found.Findings {
			if f.Level != "ok" && f.Do == "" {
				t.Errorf("%s: nothing is said to do about %+v", check, f)
			}
		}
	}
	apart := *in
	apart.env = append(slices.Clone(in.env), "PARTNERD_DATABASE_ULR=postgres://127.0.0.1:1/x", "PARTNERD_PHONE_CODES=")
	var misspelt diagnosis
	if apart.ask(t, &misspelt, "doctor", "--json"); !misspelt.OK || !slices.ContainsFunc(misspelt.Findings,
		func(f finding) bool {
			return f.Check == "settings" && f.Level == "warn" && strings.Contains(f.Found, "PARTNERD_DATABASE_ULR") &&
				strings.Contains(f.Do, "PARTNERD_DATABASE_URL")
		}) {
		t.Errorf("a misspelt name: %+v", misspelt)
	}
	if r := apart.cli(t, "deployment", "show"); r.code != 0 ||
		!strings.Contains(r.stderr, "name=PARTNERD_DATABASE_ULR meant=PARTNERD_DATABASE_URL") {
		t.Errorf("a misspelt name: %+v", r)
	}
	apart.env = append(slices.Clone(in.env), "PARTNERD_VALKEY_URL=valkey://127.0.0.1:1")
	var degraded diagnosis
	if apart.ask(t, &degraded, "doctor", "--json"); level(degraded, "quotas") != "warn" || !degraded.OK {
		t.Errorf("without the rate-limit server: %+v", degraded)
	}
	apart.env = append(slices.Clone(in.env), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	degraded = diagnosis{}
	if apart.ask(t, &degraded, "doctor", "--json"); level(degraded, "collector") != "warn" || !degraded.OK {
		t.Errorf("without the collector: %+v", degraded)
	}
	takes := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer takes.Close()
	apart.env = append(slices.Clone(in.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+takes.URL)
	var watched diagnosis
	if apart.ask(t, &watched, "doctor", "--json"); level(watched, "collector") != "ok" {
		t.Errorf("with a collector: %+v", watched)
	}
	if after := query(t, db, all); after[0] != before[0] {
		t.Errorf("left behind: %s, was %s", after[0], before[0])
	}
	server.terminate(t)
}

// examine waits for a finding of the doctor. The level "missing" waits until there is none.
func (in *installation) examine(t *testing.T, check, level, found string) {
	t.Helper()
	var last result
	await(t, deadline, func() bool {
		last = in.cli(t, "doctor", "--json")
		var d diagnosis
		if err := json.Unmarshal([]byte(last.stdout), &d); err != nil {
			t.Fatalf("%v: %+v", err, last)
		}
		return level == "missing" && d.level(check) == level || slices.ContainsFunc(d.Findings, func(f finding) bool {
			return f.Check == check && f.Level == level && strings.Contains(f.Found, found) &&
				(f.Do != "" || level == "ok") && (last.code == 0 || !d.OK)
		})
	}, func() string { return check + " is not " + level + " with " + found + ": " + last.stdout + last.stderr })
}

// TestDoctorOfAServerWithAStandby: on a real server the doctor detects WAL that is not archived, a standby that lags or
// is gone, and jobs that no process works on.
func TestDoctorOfAServerWithAStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, "archive_mode=on")
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+p.both("program"),
		"PARTNERD_DATABASE_OWNER_URL="+p.both("owner"), "PARTNERD_DATABASE_CONNS=6",
		"PARTNERD_BASE_URL=http://127.0.0.1:1")
	if r := in.cli(t, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	primary, standby := p[0], p[1]
	in.examine(t, "replication", "ok", "hidden from program")
	primary.exec(t, "GRANT pg_read_all_stats TO program")
	in.examine(t, "replication", "ok", "1 standbys keep up")

	primary.exec(t, "ALTER SYSTEM SET archive_command = 'false'", "SELECT pg_reload_conf()", "SELECT pg_switch_wal()")
	in.examine(t, "archive", "fail", "not archived")
	primary.exec(t, "ALTER SYSTEM SET archive_command = 'true'", "SELECT pg_reload_conf()")
	primary.exec(t, "SELECT pg_switch_wal()") // triggers an immediate retry of the failed archiving
	in.examine(t, "archive", "missing", "")

	db := connect(t, primary.url("owner", "partnerd"))
	for late, level := range map[string]string{"10 minutes": "warn", "2 hours": "fail"} {
		if _, err := db.Exec(t.Context(),
			`INSERT INTO river.river_job (state, attempt, max_attempts, args, kind, queue, scheduled_at)
			VALUES ('available', 0, 1, '{}', 'test', 'default', now() - $1::interval)`, late); err != nil {
			t.Fatal(err)
		}
		in.examine(t, "jobs", level, "has waited for")
		if _, err := db.Exec(t.Context(), "DELETE FROM river.river_job WHERE kind = 'test'"); err != nil {
			t.Fatal(err)
		}
	}

	standby.exec(t, "SELECT pg_wal_replay_pause()")
	if _, err := db.Exec(t.Context(), "CREATE TABLE moved ()"); err != nil {
		t.Fatal(err)
	}
	in.examine(t, "replication", "warn", "behind")
	standby.kill()
	in.examine(t, "replication", "fail", "there is none")
	primary.exec(t, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
}

// TestDoctorOfACertificate: the doctor detects a certificate that expires soon, has expired, or is for another name.
func TestDoctorOfACertificate(t *testing.T) {
	t.Parallel()
	var shown atomic.Pointer[tls.Certificate]
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the doctor rejects some certificates
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	authority, key, roots := newAuthority(t)
	certify := func(address string, left time.Duration) {
		t.Helper()
		template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-100 * 24 * time.Hour),
			NotAfter: time.Now().Add(left), IPAddresses: []net.IP{net.ParseIP(address)}}
		der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		shown.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	}
	const day = 24 * time.Hour
	certify("127.0.0.1", 60*day)
	server.StartTLS()
	t.Cleanup(server.Close)
	in := install(t, "PARTNERD_BASE_URL="+server.URL, "PARTNERD_TRUSTED_PROXIES=127.0.0.1/32", "SSL_CERT_FILE="+roots,
		"SSL_CERT_DIR="+t.TempDir())
	if r := in.cli(t, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	in.examine(t, "certificate", "ok", "valid until")
	in.examine(t, "address", "ok", "is ready")
	for _, c := range []struct {
		address, level, found string
		left                  time.Duration
	}{
		{"127.0.0.1", "warn", "(19 days)", 20 * day}, {"127.0.0.1", "warn", "(7 days)", 8 * day},
		{"127.0.0.1", "fail", "(5 days)", 6 * day}, {"127.0.0.1", "fail", "expired", -day},
		{"192.0.2.1", "fail", "127.0.0.1", 60 * day},
	} {
		certify(c.address, c.left)
		in.examine(t, "certificate", c.level, c.found)
	}
	server.Close()
	in.examine(t, "certificate", "warn", "could not be checked")
}

// newAuthority creates a certificate authority and writes its certificate to a file.
func newAuthority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-200 * 24 * time.Hour),
		NotAfter: time.Now().Add(200 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority, key, file
}
