package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/seal"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

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
