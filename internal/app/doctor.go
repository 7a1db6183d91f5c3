package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/restore"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/reseal"
)

// Level is how bad a [Finding] is.
type Level string

// The levels. A deployment with a Fail does not work, or not for long; one with a Warn works for now.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check of [Examine] came to.
type Finding struct {
	Check string `json:"check"` // what was looked at
	Level Level  `json:"level"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what helps; empty when nothing has to be done
}

// What doctor takes for too much.
const (
	patience      = 10 * time.Second // with a server that is asked
	clockWarn     = time.Second
	clockFail     = 30 * time.Second
	certificate   = 21 * 24 * time.Hour // left of a certificate: less is a warning, a third of it a failure
	lagWarn       = 30 * time.Second
	longest       = 10 * time.Minute // that a transaction is open
	supportedFrom = 140000           // server_version_num
)

// Examine looks at a deployment from outside and inside, and changes nothing but that it starts a private cluster, as
// every command does. The configuration may be wrong; what the program would refuse is not acted upon.
func Examine(ctx context.Context, cfg config.Config, log *slog.Logger) []Finding {
	e := &examination{Config: cfg, refused: cfg.Refusals()}
	e.settings()
	looks := e.tries("database", "PARTNERD_ENV", "PARTNERD_DATABASE_URL", "PARTNERD_DATABASE_OWNER_URL")
	if looks {
		e.lacks = e.Installed(ctx)
	}
	box := e.keys()
	e.secretFiles()
	e.dataFolder()
	e.diskSpace()
	if looks {
		e.installation(ctx, log, box)
	}
	e.mail(ctx)
	e.quotas(ctx)
	e.collector(ctx)
	e.address(ctx)
	return e.found
}

type examination struct {
	config.Config
	refused []config.Refusal
	lacks   error // of the installation
	found   []Finding
}

// isNew tells whether the deployment was never started.
func (e *examination) isNew() bool { return errors.As(e.lacks, &config.NewInstallation{}) }

// tries tells whether a check that acts on settings is made. It is not where one of them is refused, which is then
// said.
func (e *examination) tries(check string, settings ...string) bool {
	for _, r := range e.refused {
		if slices.Contains(settings, r.Setting) {
			e.warn(check, "not tried, because "+r.Setting+" is refused", "Correct that, and run the doctor again.")
			return false
		}
	}
	return true
}

func (e *examination) ok(check, found string) {
	e.found = append(e.found, Finding{check, OK, found, ""})
}
func (e *examination) warn(check, found, do string) {
	e.found = append(e.found, Finding{check, Warn, found, do})
}
func (e *examination) fail(check, found, do string) {
	e.found = append(e.found, Finding{check, Fail, onOneLine.Replace(found), do})
}

// onOneLine is for what a driver says of each address that it tried.
var onOneLine = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

func (e *examination) settings() {
	before := len(e.found)
	for _, r := range e.refused {
		e.fail("settings", r.Error(), "Correct the setting; the program does not start with it.")
	}
	if !e.Sandbox() {
		for _, missing := range []struct {
			absent bool
			found  string
			do     string
		}{
			{e.MailServer == "", "no mail server is set: mail waits in the queue",
				"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM."},
			{e.MailServer != "" && strings.HasSuffix(e.MailFrom, "@localhost"), "mail comes from " + e.MailFrom,
				"Set PARTNERD_MAIL_FROM to an address that receivers accept."},
			{e.SMSServer == "", "no provider of text messages is set: clients cannot verify phones",
				"Set PARTNERD_SMS_SERVER and PARTNERD_SMS_FROM."},
			{e.Telephony == "", "no telephony provider is set: no consultation is taken", "Set PARTNERD_TELEPHONY."},
			{e.StripeSecretKey == "", "no payment provider is set: top-ups are refused",
				"Set PARTNERD_STRIPE_SECRET_KEY."},
			{e.Contact == "" || e.LegalDir == "", "people find no contact, or no legal pages",
				"Set PARTNERD_CONTACT and PARTNERD_LEGAL_DIR."},
			{e.MetricsAddr == "", "no metrics are served, so nobody is alarmed",
				"Set PARTNERD_METRICS_ADDR, and PARTNERD_METRICS_TOKEN where others can connect."},
		} {
			if missing.absent {
				e.warn("settings", missing.found, missing.do)
			}
		}
	}
	for _, u := range e.Unread {
		found, do := u.Name+" is no setting of this program: nobody reads it",
			"Take it away, unless a newer program beside this one reads it."
		if u.Meant != "" {
			do = "If " + u.Meant + " is meant, set that. " + do
		}
		e.warn("settings", found, do)
	}
	if found, _, do := e.StandIn(); found != "" {
		e.warn("settings", found, do)
	}
	proxies, _ := e.Proxies()
	for _, p := range proxies {
		if p.Bits() == 0 {
			e.fail("proxy", "PARTNERD_TRUSTED_PROXIES trusts the whole world, so every visitor chooses his address",
				"Name the networks of the proxies only.")
		}
	}
	if len(e.found) == before {
		e.ok("settings", "they agree with each other")
	}
}

// keys returns what opens the database's secrets, or nil.
func (e *examination) keys() (box *seal.Box) {
	if err := e.CheckNoteKey(); err != nil {
		e.fail("note key", err.Error(), "Keep the private half away from the server, and its public half there.")
	} else if !e.tries("note key", "PARTNERD_NOTE_PUBLIC_KEY") || e.NotePublicKey == "" && e.isNew() {
		// nothing to read
	} else if _, err := e.NoteKey(); errors.Is(err, fs.ErrNotExist) {
		e.fail("note key", err.Error(), "Set PARTNERD_NOTE_PUBLIC_KEY (partnerd key generate).")
	} else if err != nil {
		e.fail("note key", err.Error(),
			"Set PARTNERD_NOTE_PUBLIC_KEY to the public half that partnerd key generate printed.")
	} else {
		e.ok("note key", "the public half can be read")
	}
	if !e.tries("master key", "PARTNERD_MASTER_KEY") {
		return nil
	}
	if e.MasterKey == "" && e.isNew() {
		e.warn("master key", "there is none yet, and the first start makes one", firstStart)
		return nil
	}
	master, err := e.Master()
	if err == nil {
		if box, err = seal.OpenBox(master); err != nil {
			err = e.MasterKeyFault(err)
		}
	}
	if err != nil {
		e.fail("master key", err.Error(), "Set PARTNERD_MASTER_KEY to the key that this deployment was made with.")
		return nil
	}
	return box
}

// What helps with a database that does not answer as it should.
const (
	runs       = "Give this command the server's settings; look whether the database runs and takes connections from here."
	firstStart = "A new deployment: start the server. One that has run before: give this command its settings."
	moreRoom   = "All connections are taken. Look in pg_stat_activity by whom (by usename and application_name); " +
		"lower PARTNERD_DATABASE_CONNS or the number of processes, raise max_connections or the role's limit, or put " +
		"PgBouncer between (PARTNERD_DATABASE_POOLER_URL)."
)

// unreachable says why the database could not be looked at.
func (e *examination) unreachable(err error) {
	do := runs
	if postgres.IsFull(err) {
		do = moreRoom
	}
	e.fail("database", err.Error(), do)
}

// installation looks at the database, once it is known to be this deployment's.
func (e *examination) installation(ctx context.Context, log *slog.Logger, box *seal.Box) {
	switch {
	case e.isNew():
		e.warn("database", "it is new, and will be set up at the first start: "+e.lacks.Error(), firstStart)
		return
	case e.lacks != nil:
		e.unreachable(e.lacks)
		return
	}
	err := e.WithDatabase(ctx, log, func(owner, program string) error {
		e.database(ctx, owner, program, box)
		return nil
	})
	if err != nil {
		e.unreachable(err)
	}
	if other := (deployment.OtherAddress{}); errors.As(err, &other) {
		e.refused = append(e.refused, config.Refusal{Setting: "PARTNERD_BASE_URL", Err: err})
	}
}

func (e *examination) database(ctx context.Context, owner, program string, box *seal.Box) {
	h, err := postgres.Examine(ctx, program)
	if err != nil {
		e.unreachable(err)
		return
	}
	version := fmt.Sprintf("PostgreSQL %d.%d", h.Version/10000, h.Version%10000)
	switch {
	case h.Version < supportedFrom:
		e.fail("database", version+" is older than 14", "Move to a PostgreSQL that is maintained.")
	case h.Standby:
		e.fail("database", version+" is a standby, which takes no writes",
			"Let PARTNERD_DATABASE_URL lead to the primary, or add target_session_attrs=read-write.")
	default:
		e.ok("database", version+" answers as "+h.Role)
	}
	e.clock(h)
	e.writes(ctx, h, owner, program)
	e.connections(h)
	e.housekeeping(h)
	e.pooler(ctx, program)
	if e.schema(ctx, owner) {
		e.roles(h)
		e.sealed(ctx, program, box)
	}
}

// writes looks whether the server takes writes, which a full disk lets nobody see who only reads.
func (e *examination) writes(ctx context.Context, h postgres.Health, owner, program string) {
	if h.Standby {
		return
	}
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := postgres.TryWrite(trying, program)
	if postgres.IsForbidden(err) { // of temporary tables
		err = postgres.TryWrite(trying, owner)
	}
	switch {
	case err == nil, postgres.IsForbidden(err):
	case postgres.IsReadOnly(err):
		e.fail("database", "it takes no writes: "+err.Error(),
			"Look for default_transaction_read_only (SHOW, ALTER SYSTEM, ALTER ROLE, ALTER DATABASE), and whether "+
				"this is still the primary.")
	case errors.Is(err, context.DeadlineExceeded):
		e.fail("database", fmt.Sprintf("a write was not committed within %s", patience),
			"Look whether commits wait for a standby that is not there (synchronous_standby_names, "+
				"pg_stat_replication), and at the server's disk.")
	case postgres.IsFull(err):
		e.unreachable(err)
	default:
		e.fail("database", "it takes no writes: "+err.Error(),
			"Look at the disk of the server, of its data and of its log, at quotas, and at the server's log.")
	}
}

// connections looks whether those of all processes together find room.
func (e *examination) connections(h postgres.Health) {
	c, needed := h.Conns, e.DatabaseConns+7
	found := fmt.Sprintf("%d of %d are in use, %d by processes of partnerd as %s", c.Used, c.Most, c.Ours, h.Role)
	switch {
	case c.Most < needed:
		e.fail("connections", fmt.Sprintf("the server takes %d, one process wants up to %d", c.Most, needed),
			"Raise max_connections, or lower PARTNERD_DATABASE_CONNS.")
	case 10*c.Used >= 9*c.Most:
		e.warn("connections", found, moreRoom)
	case c.Most-c.Used < needed:
		e.warn("connections", fmt.Sprintf("%s; one more process wants up to %d", found, needed), moreRoom)
	default:
		e.ok("connections", found)
	}
}

// pooler looks whether statements that go through the pooler find the same database, with the settings of a session.
func (e *examination) pooler(ctx context.Context, program string) {
	if e.DatabasePoolerURL == "" || !e.tries("pooler", "PARTNERD_DATABASE_POOLER_URL") {
		return
	}
	db, err := postgres.Open(ctx, program, postgres.Options{MaxConns: 2, Pooler: e.DatabasePoolerURL,
		Test: e.Sandbox()})
	if err == nil {
		db.Close()
		err = e.CheckSame(ctx, "PARTNERD_DATABASE_POOLER_URL", e.DatabasePoolerURL)
	}
	if err != nil {
		e.fail("pooler", err.Error(), "Look at PARTNERD_DATABASE_POOLER_URL and that pooler: name, port, database, "+
			"role, password, and whether it reaches the server. The program does not start without it.")
		return
	}
	e.ok("pooler", "it leads to the same database, and sets what a session needs")
}

func (e *examination) clock(h postgres.Health) {
	off := max(h.Ahead.Abs()-h.AskedWithin, 0)
	found := fmt.Sprintf("the database's clock and this machine's differ by %s", h.Ahead.Abs().Round(time.Millisecond))
	const do = "Let both follow the same time (chrony, systemd-timesyncd). The program goes by the database's, its " +
		"log and TLS by the machine's."
	switch {
	case off > clockFail:
		e.fail("clock", found, do)
	case off > clockWarn:
		e.warn("clock", found, do)
	default:
		e.ok("clock", found)
	}
}

func (e *examination) roles(h postgres.Health) {
	switch {
	case len(h.Missing) > 0:
		e.fail("privileges", h.Role+" lacks privileges in "+strings.Join(h.Missing, ", "),
			"Run partnerd migrations up with PARTNERD_DATABASE_OWNER_URL, which grants them.")
	case h.Owns && !e.Sandbox():
		e.warn("privileges", h.Role+" owns the tables or is a superuser: it can change the ledger and the audit",
			"Give the program a role of its own, see PARTNERD_DATABASE_OWNER_URL.")
	default:
		e.ok("privileges", h.Role+" has what it needs")
	}
}

func (e *examination) housekeeping(h postgres.Health) {
	before := len(e.found)
	if !h.Autovacuum {
		e.fail("autovacuum", "it is off: tables grow, and plans go by old statistics",
			"Set autovacuum and track_counts to on.")
	}
	if len(h.Unanalyzed) > 0 {
		e.warn("autovacuum", "nothing is known of "+strings.Join(h.Unanalyzed, ", "),
			"Run ANALYZE once (after a restore or an upgrade), and look whether autovacuum keeps up.")
	}
	if h.Age > 0.5 {
		e.fail("autovacuum", fmt.Sprintf("%.0f %% of the transaction numbers are used up", 100*h.Age),
			"Run VACUUM FREEZE, and end what holds it up: long transactions, replication slots, prepared transactions.")
	}
	if h.Longest > longest {
		e.warn("transactions", "one has been open for "+h.Longest.Round(time.Second).String(),
			"Look in pg_stat_activity for who holds it; it holds up migrations and vacuum.")
	}
	switch {
	case h.Deserted:
		e.fail("replication", "commits wait for a standby, and there is none",
			"Bring the standby back, or set synchronous_standby_names to nothing until there is another: nothing "+
				"that is written is answered before.")
	case h.Lag > lagWarn:
		e.warn("replication", fmt.Sprintf("a standby is %s behind", h.Lag.Round(time.Second)),
			"Look at its disk, network and long queries: a failover to it would lose that much unless it "+
				"is synchronous.")
	case h.Standbys > 0 && !h.Waits:
		e.warn("replication", fmt.Sprintf("%d standbys, and commits wait for none of them", h.Standbys),
			"A failover loses what the standby did not have yet, and partners were told of it. Set "+
				"synchronous_standby_names, and synchronous_commit to on; or live with that, see \"When the primary "+
				"database is lost\" in .deploy/README.md.")
	case h.LagHidden:
		e.ok("replication", fmt.Sprintf("commits wait for one of %d standbys; how far behind they are is not shown "+
			"to %s (GRANT pg_read_all_stats)", h.Standbys, h.Role))
	case h.Standbys > 0:
		e.ok("replication", fmt.Sprintf("%d standbys keep up; commits wait for %d of them", h.Standbys, h.Synchronous))
	}
	switch {
	case h.ArchiveFail:
		e.fail("archive", "the last segment of the log was not archived",
			"Look at the server's log for archive_command: until it works, disk fills and no later instant "+
				"can be restored.")
	case !h.Archiving && !e.Sandbox():
		e.warn("archive", "the log is not archived: only the last dump can be restored",
			"Set archive_mode, see Backups in README.md.")
	}
	if len(e.found) == before {
		e.ok("housekeeping", "vacuum and archive run")
	}
}

// schema tells whether the rest can be looked at as this program knows it.
func (e *examination) schema(ctx context.Context, owner string) (known bool) {
	s, err := postgres.Migrations{URL: owner}.Status(ctx)
	switch {
	case err != nil:
		e.fail("schema", err.Error(), "Look at PARTNERD_DATABASE_OWNER_URL.")
	case s.Check() != nil:
		e.fail("schema", s.Check().Error(), "Start the newer program.")
	case s.Newer():
		e.warn("schema", fmt.Sprintf("the database has schema %d, this program knows schema %d", s.Version, s.Known),
			"Replace what is left of the older version.")
	case s.Version < s.Known:
		e.warn("schema", fmt.Sprintf("the database has schema %d, this program knows schema %d: %d migrations are "+
			"pending, and privileges and rows were not looked at", s.Version, s.Known, s.Pending()),
			"The next start migrates; or run partnerd migrations up. Then run the doctor again.")
		return false
	default:
		e.ok("schema", fmt.Sprintf("%d, the newest", s.Version))
	}
	return err == nil
}

// sealed looks at what the database holds, and tries the master key on it.
func (e *examination) sealed(ctx context.Context, program string, box *seal.Box) {
	db, err := postgres.Open(ctx, program, postgres.Options{MaxConns: 2, Test: e.Sandbox()})
	if err != nil {
		e.fail("signing keys", err.Error(), "Look whether the database takes connections.")
		return
	}
	defer db.Close()
	if known, err := deployment.Get(ctx, db.Read()); err == nil {
		e.BaseURL = cmp.Or(e.BaseURL, known.BaseURL)
	}
	if err := restore.Check(ctx, db.Read()); err != nil {
		e.fail("restore", err.Error(), "partnerd serve and work refuse it until then.")
	}
	e.losses(ctx, db.Read())
	e.partitions(ctx, db.Read())
	e.late(ctx, db.Read())
	if box == nil {
		e.warn("signing keys", "not tried, because there is no master key that can be used",
			"See to the master key, and run the doctor again.")
		return
	}
	e.parts(ctx, db.Read(), box)
	switch n, err := oauth.CheckKeys(ctx, db.Read(), box); {
	case err != nil:
		e.fail("signing keys", err.Error(), "The master key is not the one that the database was sealed with: set "+
			"the one that was, or nobody's secrets open.")
	case n == 0:
		e.warn("signing keys", "there is none yet", "The first start makes one.")
	default:
		e.ok("signing keys", fmt.Sprintf("%d, and the master key opens them", n))
	}
}

// losses tells what processes found missing in the database.
func (e *examination) losses(ctx context.Context, tx postgres.Tx) {
	losses, err := restore.Unsettled(ctx, tx)
	if err != nil {
		e.fail("restore", err.Error(), runs)
	}
	if len(losses) == 0 {
		return
	}
	from, until := losses[0].From, losses[0].Until
	for _, l := range losses {
		if l.From.Before(from) {
			from = l.From
		}
		if l.Until.After(until) {
			until = l.Until
		}
	}
	e.fail("restore", fmt.Sprintf("the database went back: it lacks what was written and acknowledged "+
		"between %s and %s", clock.Format(from), clock.Format(until)),
		"Run partnerd restored, with the lost database if there is one, see DatabaseWentBack in .deploy/runbook.md.")
}

// parts looks whether every value is sealed by a part of the master key that is there, and whether the older ones are
// still needed.
func (e *examination) parts(ctx context.Context, tx postgres.Tx, box *seal.Box) {
	uses, err := reseal.Uses(ctx, tx, sealedColumns())
	if err != nil {
		e.warn("sealed rows", err.Error(), "Run partnerd migrations up first, or look at the database.")
		return
	}
	var missing, older []string
	for _, u := range uses {
		line := fmt.Sprintf("%d of %s by %s", u.Rows, u.Column, u.Part)
		switch {
		case !box.Has(u.Part):
			missing = append(missing, line)
		case u.Part != box.Sealing():
			older = append(older, line)
		}
	}
	switch {
	case len(missing) > 0:
		e.fail("sealed rows", "the master key lacks parts that rows are sealed with: "+strings.Join(missing, ", "),
			"Set PARTNERD_MASTER_KEY to the key that has these parts; or nobody reads these rows again.")
	case len(older) > 0:
		e.warn("sealed rows", "older parts of the master key are still needed: "+strings.Join(older, ", "),
			"Run partnerd key reseal when every process has the promoted key; what is left runs out within a day.")
	case len(box.Parts()) > 1:
		e.ok("sealed rows", fmt.Sprintf("all are sealed by %s, the part that seals; of %d parts the others are not "+
			"needed by a table", box.Sealing(), len(box.Parts())))
	default:
		e.ok("sealed rows", "all are sealed by the master key")
	}
}

func (e *examination) mail(ctx context.Context) {
	if e.KeepsMailFromPeople() {
		e.warn("mail", config.MailKept,
			"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM. Until then emails are in the data folder, and those to test clients in the inbox of the Sandbox API.")
	}
	if e.MailServer == "" || !e.tries("mail", "PARTNERD_MAIL_SERVER") {
		return
	}
	server, err := mail.NewSMTP(e.MailServer, e.MailFrom, nil)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err = server.Check(asking)
	}
	if err != nil {
		e.fail("mail", err.Error(), "Look at PARTNERD_MAIL_SERVER: name, port, password, STARTTLS. Mail waits in the "+
			"queue meanwhile.")
		return
	}
	e.ok("mail", "the server greets and takes the password, if there is one")
}

// quotas looks at the server that counts for all processes; while it is away each counts for itself.
func (e *examination) quotas(ctx context.Context) {
	if e.ValkeyURL == "" || !e.tries("quotas", "PARTNERD_VALKEY_URL") {
		return
	}
	if err := ratelimit.CheckServer(ctx, e.ValkeyURL); err != nil {
		e.warn("quotas", "the server that is to count for all processes does not answer: "+err.Error(),
			"Look at PARTNERD_VALKEY_URL and that server: name, port, password, TLS. Meanwhile each process "+
				"counts for itself.")
		return
	}
	e.ok("quotas", "the server that counts for all processes answers")
}

// collector looks whether traces and metrics are taken; while they are not, nothing else suffers.
func (e *examination) collector(ctx context.Context) {
	if !e.tries("collector", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG") {
		return
	}
	c, err := e.Telemetry()
	if err != nil || c.Traces == "" && c.Metrics == "" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Check(asking); err != nil {
		e.warn("collector", "it does not take what is sent to it: "+strings.ReplaceAll(err.Error(), "\n", "; "),
			"Look at OTEL_EXPORTER_OTLP_ENDPOINT and its kin, and at that collector: name, port, path, TLS, headers. "+
				"Meanwhile traces and metrics are lost.")
		return
	}
	e.ok("collector", "it takes traces and metrics that are sent to it")
}

// address looks at the public address as people do.
func (e *examination) address(ctx context.Context) {
	if e.BaseURL == "" || !e.tries("address", "PARTNERD_BASE_URL") {
		return
	}
	if err := e.CheckServing(); err != nil {
		e.fail("proxy", err.Error(), "Set PARTNERD_TRUSTED_PROXIES.")
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if u.Scheme == "https" {
		e.certificate(asking, u)
	}
	const do = "Look whether partnerd serve runs, and at DNS, firewall and proxy."
	r, err := http.NewRequestWithContext(asking, http.MethodGet, strings.TrimSuffix(e.BaseURL, "/")+"/readyz", nil)
	if err != nil {
		return
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		e.warn("address", e.BaseURL+" does not answer from here: "+plainly(err), do)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		e.fail("address", fmt.Sprintf("%s/readyz answers %s", e.BaseURL, answer.Status), do)
		return
	}
	e.ok("address", e.BaseURL+" is ready")
}

func (e *examination) certificate(ctx context.Context, u *url.URL) {
	const do = "Renew the certificate at the proxy, and look why it was not renewed by itself."
	until, err := expiry(ctx, u)
	var invalid *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid):
		e.fail("certificate", invalid.Error(), do)
		return
	case err != nil:
		e.warn("certificate", "it could not be looked at: "+plainly(err), "Look at DNS, firewall and proxy.")
		return
	}
	left := until.Sub(clock.System{}.Now())
	found := fmt.Sprintf("valid until %s (%d days)", until.UTC().Format(time.DateOnly), int(left.Hours()/24))
	switch {
	case left < certificate/3:
		e.fail("certificate", found, do)
	case left < certificate:
		e.warn("certificate", found, do)
	default:
		e.ok("certificate", found)
	}
}

// plainly is the cause of a request's failure without the address, which was said.
func plainly(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}
