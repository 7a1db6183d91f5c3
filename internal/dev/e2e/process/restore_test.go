package process_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/base/poll"
)

// archive is a pgBackRest repository with the encrypted backups of a server and the WAL since then.
type archive struct {
	dir     string
	servers []*dbServer
	program string
}

const (
	stanza = "partnerd"
	// A server with little activity archives this often. So this is the most that is lost with its disk.
	archiveTimeout = 5 * time.Second
)

// newArchive starts server 0 with an archive. pgBackRest is copied to where the server's account can run it.
func newArchive(t *testing.T, servers int) *archive {
	t.Helper()
	found, err := exec.LookPath(os.Getenv("PARTNERD_TEST_RESTORE"))
	if err != nil {
		fmt.Printf("NOT CHECKED: %s needs pgbackrest\n", t.Name())
		t.Skip("NOT CHECKED: pgbackrest is not installed")
	}
	a := &archive{}
	a.dir, a.servers = newServers(t, servers)
	a.program = filepath.Join(a.dir, "pgbackrest")
	program, err := os.ReadFile(found)
	if err == nil {
		err = os.WriteFile(a.program, program, 0o755)
	}
	config := filepath.Join(a.dir, "pgbackrest.conf")
	if err == nil {
		err = os.WriteFile(config, []byte(fmt.Sprintf(`[global]
repo1-path=%[1]s/repository
repo1-cipher-type=aes-256-cbc
repo1-cipher-pass=%[2]s
repo1-retention-full=2
start-fast=y
compress-type=lz4
log-level-file=off
log-level-console=warn
log-path=%[1]s/log
lock-path=%[1]s/lock
spool-path=%[1]s/spool

[%[3]s]
pg1-path=%[4]s
pg1-port=%[5]s
pg1-user=owner
pg1-socket-path=%[1]s
`, a.dir, rand.Text(), stanza, a.servers[0].data, a.servers[0].port)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.program += " --config=" + config + " --stanza=" + stanza
	a.startArchiving(t, 0)
	a.servers[0].exec(t, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	a.backrest(t, "stanza-create")
	a.backrest(t, "check")
	return a
}

func (a *archive) backrest(t *testing.T, args ...string) {
	t.Helper()
	whole := append(strings.Fields(a.program), args...)
	cmd := a.servers[0].command("true")
	cmd.Path, cmd.Args = whole[0], whole
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pgbackrest %q: %v\n%s", args, err, out)
	}
}

func (a *archive) startArchiving(t *testing.T, i int) {
	t.Helper()
	a.servers[i].start(t, "archive_mode=on", "archive_timeout="+fmt.Sprint(int(archiveTimeout.Seconds())),
		"archive_command="+a.program+" --pg1-path="+a.servers[i].data+" archive-push %p")
}

// restore brings the folder of server i to a point in time or, if instant is empty, to the end of the archive. how says
// what the server does there.
func (a *archive) restore(t *testing.T, i int, instant, how string) {
	t.Helper()
	args := []string{"--pg1-path=" + a.servers[i].data, "--type=default",
		"--recovery-option=partnerd.restored=" + rand.Text()}
	if instant != "" {
		args = []string{"--pg1-path=" + a.servers[i].data, "--type=time",
			"--target=" + strings.NewReplacer("T", " ", "Z", "+00").Replace(instant), "--target-action=" + how,
			"--target-timeline=current"}
	}
	if err := os.RemoveAll(a.servers[i].data); err != nil {
		t.Fatal(err)
	}
	a.backrest(t, append(args, "restore")...)
}

// awaitWrites waits until server i has finished recovery.
func (a *archive) awaitWrites(t *testing.T, i int) {
	t.Helper()
	db := connect(t, a.servers[i].url("owner", "postgres"))
	await(t, deadline, func() bool { return query(t, db, "SELECT pg_is_in_recovery()::text")[0] == "false" },
		func() string { return "still in recovery" })
}

// instant returns the database's time in a form that both Postgres and the program can read.
func instant(t *testing.T, db *pgx.Conn) string {
	t.Helper()
	return query(t, db, `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)[0]
}

// outcome is an acknowledged creation, with the moments of the drill at its request and its response.
type outcome struct {
	key, id        string
	sent, answered int64 // of [drill.moment]
	at             time.Time
}

// drill is the load of partners on a deployment of one process.
type drill struct {
	*testing.T
	*partner
	url    string
	access atomic.Value // string
	moment atomic.Int64 // 0: before the time is read; 1: while it is read; 2: after; 3: anything may happen
	mu     sync.Mutex
	made   []outcome
}

func (d *drill) load(ctx context.Context, callers int) (wait func()) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := 0; poll.Pause(ctx, 100*time.Millisecond); n++ {
				q := request{rand.Text(), "TAX", "PT"}
				if i == 0 && n%30 == 0 { // simulated lawyers take their time, and the client has one phone
					q = request{q.key, "HOUSING", "FR"}
				}
				sent := d.moment.Load()
				x := create(ctx, d.url, d.access.Load().(string), q)
				if answered := d.moment.Load(); x.status == http.StatusCreated {
					d.mu.Lock()
					d.made = append(d.made, outcome{q.key, x.consultation(d.T).ID, sent, answered, time.Now()})
					d.mu.Unlock()
				} else if x.status != 0 && d.moment.Load() < 3 {
					d.Errorf("create: %d %s", x.status, x.body)
				}
			}
		})
	}
	return all.Wait
}

func (d *drill) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.made)
}

func (d *drill) more(n int) {
	d.Helper()
	want := d.count() + n
	await(d.T, deadline, func() bool { return d.count() >= want },
		func() string { return fmt.Sprintf("%d of %d consultations are made", d.count(), want) })
}

// call sends a request with a token or, if it is empty, with the application's credentials.
func (d *drill) call(method, path, token, body string) answer {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if token == "" {
		r.SetBasicAuth(d.app.ClientID, d.app.ClientSecret)
	} else {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	return send(r)
}

// topUp pays 50 EUR on the checkout page and waits for the resulting balance.
func (d *drill) topUp(token string, balance int) {
	d.Helper()
	var opened struct{ CheckoutURL string }
	x := d.call(http.MethodPost, "/api/v1/wallet/topup-session", token,
		`{"amountCents":5000,"returnUrl":"https://crm.example/wallet"}`)
	if err := json.Unmarshal(x.body, &opened); err != nil || x.status != http.StatusOK {
		d.Fatalf("top up: %d %s", x.status, x.body)
	}
	b := crm.NewBrowser("https://crm.example/")
	page, err := b.Open(d.Context(), opened.CheckoutURL)
	if err != nil {
		d.Fatal(err)
	}
	f, err := page.Form("action")
	if err == nil {
		_, err = b.Send(d.Context(), page, f, nil, "pay")
	}
	if err != nil {
		d.Fatal(err)
	}
	await(d.T, deadline, func() bool {
		x := d.call(http.MethodGet, "/api/v1/wallet", token, "")
		return strings.Contains(string(x.body), fmt.Sprintf(`"balanceCents":%d,`, balance))
	}, func() string { return "the top-up is not credited" })
}

// client registers another client, without money.
func (d *drill) client(in *installation) (id, email string) {
	d.Helper()
	var made struct{ ID string }
	email = strings.ToLower(rand.Text()[:10]) + "@client.example"
	in.ask(d.T, &made, "client", "create", "--json", "--email", email, "--password", password, "--name",
		"Another Client", "--phone", "+33639980003", "--phone-verified")
	return made.ID, email
}

func (d *drill) linkAs(email string) *oauth2.Token {
	d.Helper()
	other := *d.partner
	other.email = email
	return other.link(d.T, d.url)
}

// erase erases a client on the account pages.
func (d *drill) erase(email string) {
	d.Helper()
	b := crm.NewBrowser("")
	page, err := b.Open(d.Context(), d.url+"/account/privacy/erase")
	var f crm.Form
	if err == nil {
		f, err = page.Form("password")
	}
	if err == nil {
		page, err = b.Send(d.Context(), page, f, map[string]string{"email": email, "password": password}, "")
	}
	if err == nil {
		f, err = page.Form("present")
	}
	if err == nil {
		page, err = b.Send(d.Context(), page, f, map[string]string{"present": password}, "")
	}
	if err != nil || page.Status != http.StatusOK {
		d.Fatalf("erase: %+v, %v", page, err)
	}
}

func (d *drill) refresh(token string) (answer, oauth2.Token) {
	d.Helper()
	x := post(d.Context(), d.url+"/api/oauth/token", url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {token}, "client_id": {d.app.ClientID}, "client_secret": {d.app.ClientSecret}})
	var t oauth2.Token
	_ = json.Unmarshal(x.body, &t)
	return x, t
}

// feed reads the list of events from a cursor to its end.
func (d *drill) feed(after string) (cursor string, ids []string) {
	d.Helper()
	for cursor = after; ; {
		q := url.Values{"limit": {"100"}}
		if cursor != "" {
			q.Set("after", cursor)
		}
		x := d.call(http.MethodGet, "/api/platform/v1/events?"+q.Encode(), "", "")
		var page struct {
			Items   []struct{ ID string }
			Cursor  string
			HasMore bool
		}
		if err := json.Unmarshal(x.body, &page); err != nil || x.status != http.StatusOK {
			d.Fatalf("events: %d %s", x.status, x.body)
		}
		for _, e := range page.Items {
			ids = append(ids, e.ID)
		}
		if cursor = page.Cursor; !page.HasMore {
			return cursor, ids
		}
	}
}

// events counts the events that arrived for a consultation.
func (d *drill) events(id string) int { return len(d.received.Events(id)) }

// repeated lists the sequence numbers that two events of a consultation share.
func (d *drill) repeated(id string) (numbers []int) {
	given := map[int]bool{}
	for _, e := range d.received.Events(id) {
		if given[e.Sequence] {
			numbers = append(numbers, e.Sequence)
		}
		given[e.Sequence] = true
	}
	return numbers
}

// TestRestoreBringsBackWhatWasBefore is "make drill". A server with an archive is backed up while partners call, an
// operator does damage, and the database is restored to a time before it. Everything acknowledged before that time is
// there, and nothing after it. The program continues without giving partners a number twice. At the end a disk is lost
// permanently, to see what the archive lacks.
func TestRestoreBringsBackWhatWasBefore(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_RESTORE") == "" {
		t.Skip("make drill")
	}
	t.Parallel()
	const damaged, restored, lost, rebuilt, callers = 0, 1, 2, 3, 4
	a := newArchive(t, 4)
	front := freeAddress(t)
	settings := func(i int) []string {
		return []string{"PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL=" + a.servers[i].url("program", "partnerd"),
			"PARTNERD_DATABASE_OWNER_URL=" + a.servers[i].url("owner", "partnerd"),
			"PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL=http://" + front}
	}
	in := install(t, settings(damaged)...)
	server := in.serve(t, front)
	crm := onboard(t, in, server.url, 100_000_000)
	d := &drill{T: t, partner: crm, url: server.url}
	kept := crm.link(t, d.url)
	d.access.Store(kept.AccessToken)
	erased, email := d.client(in)
	_, other := d.client(in)
	gone := d.linkAs(other)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait := d.load(ctx, callers)
	d.more(20)
	began := time.Now()
	a.backrest(t, "--type=full", "backup")
	ended := time.Now()
	t.Logf("a full backup under load takes %s", ended.Sub(began).Round(100*time.Millisecond))
	d.topUp(gone.AccessToken, 5000)
	d.more(20)
	// pgBackRest knows the end of a backup only to the second.
	await(t, deadline, func() bool { return time.Since(ended) > 2*time.Second }, nil)
	withdrawn := create(t.Context(), d.url, kept.AccessToken, request{rand.Text(), "IP", "PT"}).consultation(t).ID

	db := connect(t, a.servers[damaged].url("owner", "partnerd"))
	d.moment.Store(1)
	to := instant(t, db)
	d.moment.Store(2)

	// Partners and clients see this, but the restored database will not know it.
	d.more(40)
	if x := d.call(http.MethodPost, "/api/v1/consultations/"+withdrawn+"/cancel",
		kept.AccessToken, `{}`); x.status != http.StatusOK {
		t.Fatalf("cancel: %d %s", x.status, x.body)
	}
	x, next := d.refresh(kept.RefreshToken)
	if x.status != http.StatusOK {
		t.Fatalf("refresh: %d %s", x.status, x.body)
	}
	d.access.Store(next.AccessToken)
	d.topUp(gone.AccessToken, 10_000)
	if x := post(t.Context(), d.url+"/api/oauth/revoke", url.Values{"token": {gone.RefreshToken},
		"client_id": {d.app.ClientID}, "client_secret": {d.app.ClientSecret}}); x.status != http.StatusOK {
		t.Fatalf("revoke: %d %s", x.status, x.body)
	}
	d.erase(email)
	await(t, deadline, func() bool { return d.events(withdrawn) >= 5 },
		func() string { return "no event tells of the cancellation" })
	cursor, _ := d.feed("")
	known := d.count()
	before := instant(t, db)

	// An operator's wrong statement, discovered a little later.
	d.moment.Store(3)
	for _, sql := range []string{
		"SET session_replication_role = replica", "DELETE FROM consultations", "RESET session_replication_role",
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wait()
	server.kill()
	began = time.Now()
	lap := func(what string) {
		t.Helper()
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), what)
	}

	if _, err := db.Exec(t.Context(), "SELECT pg_switch_wal()"); err != nil {
		t.Fatal(err)
	}
	segment := query(t, db, "SELECT pg_walfile_name(pg_switch_wal())")[0]
	await(t, deadline, func() bool {
		return query(t, db, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")[0] >= segment
	}, func() string { return "the WAL is not archived" })
	lap("the log up to the damage is archived")
	a.servers[damaged].kill()
	a.restore(t, restored, to, "promote")
	lap("the backup is in its place")
	a.startArchiving(t, restored)
	a.restore(t, lost, before, "pause")
	a.servers[lost].start(t)
	lap("a copy of what was lost can be read")
	a.awaitWrites(t, restored)
	lap("the log is replayed, the database takes writes")

	again := install(t, settings(restored)...)
	if r := again.cli(t, "doctor"); r.code == 0 {
		t.Errorf("without the keys the doctor finds nothing wrong: %s", r.stdout)
	}
	if r := again.cli(t, "restored", "--to", to, "--reason", "Drill."); r.code == 0 {
		t.Errorf("without the keys the database opens: %s", r.stdout)
	}
	if err := os.RemoveAll(again.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(again.dir, "keys"), os.DirFS(filepath.Join(in.dir, "keys"))); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Compared   bool
		Gone       []struct{ ID string }
		Repeated   []string
		Erased     []string
		LinksEnded int
		TokensKept int
		Payments   []struct{ ID string }
	}
	again.refused(t)
	again.ask(t, &report, "restored", "--to", to, "--lost-database-url", a.servers[lost].url("owner", "partnerd"),
		"--reason", "Drill.", "--json")
	lap("the database is settled")
	t.Logf("the report: compared %t, %d consultations gone, %d open again, %d erased, %d links ended, %d tokens "+
		"kept, %d payments missing",
		report.Compared, len(report.Gone), len(report.Repeated), len(report.Erased), report.LinksEnded,
		report.TokensKept, len(report.Payments))
	server = again.serve(t, front)
	lap("the program serves")
	first := create(t.Context(), d.url, next.AccessToken, request{rand.Text(), "HOUSING", "FR"})
	if first.status != http.StatusCreated {
		t.Fatalf("create: %d %s", first.status, first.body)
	}
	lap("a consultation is made with the token from after the instant")

	// Everything from before is there, and nothing from after.
	db = connect(t, a.servers[restored].url("owner", "partnerd"))
	there := map[string]bool{}
	for _, id := range query(t, db, "SELECT id FROM consultations") {
		there[id] = true
	}
	reported := map[string]bool{}
	for _, g := range report.Gone {
		reported[g.ID] = true
	}
	acknowledged, after := 0, 0
	for i, o := range d.made {
		switch {
		case o.answered == 0:
			if acknowledged++; !there[o.id] {
				t.Errorf("%s was acknowledged before the restore point and is lost", o.id)
			}
		case o.sent == 2:
			if after++; there[o.id] {
				t.Errorf("%s was created after the restore point and is there", o.id)
			}
		}
		if i < known && there[o.id] == reported[o.id] {
			t.Errorf("%s is there: %t, reported as gone: %t", o.id, there[o.id], reported[o.id])
		}
	}
	t.Logf("%d consultations were acknowledged before the restore point and are there, %d after it and are not",
		acknowledged, after)

	// These came back although they had ended.
	if len(report.Erased) != 1 || report.Erased[0] != erased ||
		len(query(t, db, "SELECT id FROM clients WHERE erased_at IS NOT NULL AND id = '"+erased+"'")) != 1 ||
		len(query(t, db, "SELECT client_id FROM vault.client_keys WHERE client_id = '"+erased+"'")) != 0 {
		t.Errorf("the client who was erased after the restore point is back: %+v", report)
	}
	if report.LinksEnded != 1 ||
		d.call(http.MethodGet, "/api/v1/me", gone.AccessToken, "").status != http.StatusUnauthorized {
		t.Errorf("the connection that was ended after the restore point is active: %+v", report)
	}
	if len(report.Payments) != 1 {
		t.Errorf("%d payments after the restore point are reported, want 1", len(report.Payments))
	}
	if x, _ := d.refresh(next.RefreshToken); x.status != http.StatusOK {
		t.Errorf("the refresh token from after the restore point: %d %s", x.status, x.body)
	}

	// The program continues, and no number is given twice.
	if x := d.call(http.MethodPost, "/api/v1/consultations/"+withdrawn+"/cancel",
		next.AccessToken, `{}`); x.status != http.StatusOK {
		t.Errorf("cancel again: %d %s", x.status, x.body)
	}
	await(t, deadline, func() bool { return d.events(withdrawn) >= 7 },
		func() string { return "no event tells of the second cancellation" })
	within, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := crm.received.Wait(within, first.consultation(t).ID, "consultation.completed"); err != nil {
		t.Errorf("the first consultation after the restore: %v", err)
	}
	awaitQuiet(t, db)
	for id := range there {
		if numbers := d.repeated(id); len(numbers) > 0 {
			t.Errorf("%s: partners were given the numbers %v twice", id, numbers)
		}
	}
	_, ids := d.feed(cursor)
	fresh := map[string]bool{}
	for _, id := range ids {
		fresh[id] = true
	}
	for _, e := range crm.received.Events(first.consultation(t).ID) {
		if !fresh[e.ID] {
			t.Errorf("the list of events omits %s %s for a reader from after the restore point", e.Type, e.ID)
		}
	}
	for _, fault := range append(query(t, db, strings.Replace(brokenSQL,
		"count(e.id) <> c.event_seq OR min(e.sequence) <> 1 OR max(e.sequence) <> c.event_seq",
		"min(e.sequence) <> 1 OR max(e.sequence) > c.event_seq", 1)), query(t, db, doubleSQL)...) {
		t.Error(fault)
	}
	for _, fault := range crm.received.faults(true) {
		t.Error(fault)
	}
	var books struct {
		OK       bool
		Findings []string
	}
	if again.ask(t, &books, "ledger", "verify", "--full", "--json"); !books.OK {
		t.Errorf("the ledger: %+v", books)
	}
	var health struct{ OK bool }
	if again.ask(t, &health, "doctor", "--json"); !health.OK {
		t.Error("the doctor finds faults")
	}

	// The disk is lost permanently, with everything not archived yet.
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	d.access.Store(next.AccessToken)
	d.made = nil
	const archived = "SELECT (archived_count >= 2)::text FROM pg_stat_archiver"
	if _, err := db.Exec(t.Context(), "SELECT pg_stat_reset_shared('archiver')"); err != nil {
		t.Fatal(err)
	}
	wait = d.load(ctx, callers)
	await(t, 5*deadline, func() bool { return query(t, db, archived)[0] == "true" },
		func() string { return "the WAL is not archived" })
	d.more(20)
	a.servers[restored].kill()
	died := time.Now()
	stop()
	wait()
	server.kill()
	a.servers[lost].kill()
	a.restore(t, rebuilt, "", "")
	a.startArchiving(t, rebuilt)
	a.awaitWrites(t, rebuilt)
	t.Logf("%.1f s after the disk was lost another server takes writes", time.Since(died).Seconds())
	db = connect(t, a.servers[rebuilt].url("owner", "partnerd"))
	clear(there)
	for _, id := range query(t, db, "SELECT id FROM consultations") {
		there[id] = true
	}
	missing, oldest := 0, died
	for _, o := range d.made {
		if !there[o.id] {
			if missing++; o.at.Before(oldest) {
				oldest = o.at
			}
		}
	}
	t.Logf("with archive_timeout = %s, %d of %d consultations are lost with the disk: the last %.1f s",
		archiveTimeout, missing, len(d.made), died.Sub(oldest).Seconds())
	anew := install(t, settings(rebuilt)...)
	if err := os.CopyFS(filepath.Join(anew.dir, "keys"), os.DirFS(filepath.Join(in.dir, "keys"))); err != nil {
		t.Fatal(err)
	}
	anew.refused(t)
	anew.ask(t, &report, "restored", "--to", died.UTC().Format(time.RFC3339Nano), "--reason", "Drill.", "--json")
	if anew.serve(t, front).terminate(t); report.Compared {
		t.Errorf("compared with nothing: %+v", report)
	}
	anew.booksAgree(t)
}

// refused asserts that no process serves, or works on, a restored database that is not settled. The doctor gives the
// reason.
func (in *installation) refused(t *testing.T) {
	t.Helper()
	for _, command := range []string{"serve", "work"} {
		if r := in.cli(t, command); r.code == 0 || !strings.Contains(r.stderr, "run partnerd restored first") {
			t.Errorf("%s of a database that is not settled: %+v", command, r)
		}
	}
	if r := in.cli(t, "doctor"); r.code == 0 || !strings.Contains(r.stdout, "run partnerd restored first") {
		t.Errorf("the doctor does not say that the database is not settled: %+v", r)
	}
}
