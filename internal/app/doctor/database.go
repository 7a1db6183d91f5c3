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

// Remedies for a database that does not respond as it should.
const (
	runs       = "Run this command with the server's settings; check that the database is running and accepts connections from here."
	firstStart = "For a new deployment, start the server. For an existing one, run this command with its settings."
	moreRoom   = "See who uses the connections in pg_stat_activity (usename and application_name). " +
		"Lower PARTNERD_DATABASE_CONNS or the number of processes, raise max_connections or the role's limit, or add " +
		"PgBouncer (PARTNERD_DATABASE_POOLER_URL)."
)

// unreachable reports why the database could not be checked.
func (e *examination) unreachable(err error) {
	do := runs
	if postgres.IsFull(err) {
		do = moreRoom
	}
	e.fail("database", err.Error(), do)
}

// installation checks the database, once it is known to belong to this deployment.
func (e *examination) installation(ctx context.Context, log *slog.Logger, box *seal.Box) {
	switch {
	case e.isNew():
		e.warn("database", "it is new and will be set up at the first start: "+e.lacks.Error(), firstStart)
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
		e.fail("database", version+" is older than 14", "Upgrade to a supported PostgreSQL version.")
	case h.Standby:
		e.fail("database", version+" is a standby, which accepts no writes",
			"Point PARTNERD_DATABASE_URL at the primary, or add target_session_attrs=read-write.")
	default:
		e.ok("database", version+" accepts connections as "+h.Role)
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

// writes checks that the server accepts writes. On a full disk, reads still succeed.
func (e *examination) writes(ctx context.Context, h postgres.Health, owner, program string) {
	if h.Standby {
		return
	}
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := postgres.TryWrite(trying, program)
	if postgres.IsForbidden(err) { // to create temporary tables
		err = postgres.TryWrite(trying, owner)
	}
	switch {
	case err == nil, postgres.IsForbidden(err):
	case postgres.IsReadOnly(err):
		e.fail("database", "it accepts no writes: "+err.Error(),
			"Check default_transaction_read_only (SHOW, ALTER SYSTEM, ALTER ROLE, ALTER DATABASE) and that "+
				"this is still the primary.")
	case errors.Is(err, context.DeadlineExceeded):
		e.fail("database", fmt.Sprintf("a write was not committed within %s", patience),
			"Check whether commits wait for a missing standby (synchronous_standby_names, "+
				"pg_stat_replication), and check the server's disk.")
	case postgres.IsFull(err):
		e.unreachable(err)
	default:
		e.fail("database", "it accepts no writes: "+err.Error(),
			"Check the server's disks for data and WAL, disk quotas, and the server's log.")
	}
}

// connections checks that the connections of all processes together fit the server's limit.
func (e *examination) connections(h postgres.Health) {
	c, needed := h.Conns, e.DatabaseConns+7
	found := fmt.Sprintf("%d of %d are in use, %d by partnerd processes as %s", c.Used, c.Most, c.Ours, h.Role)
	switch {
	case c.Most < needed:
		e.fail("connections", fmt.Sprintf("the server allows %d, but one process needs up to %d", c.Most, needed),
			"Raise max_connections, or lower PARTNERD_DATABASE_CONNS.")
	case 10*c.Used >= 9*c.Most:
		e.warn("connections", found, moreRoom)
	case c.Most-c.Used < needed:
		e.warn("connections", fmt.Sprintf("%s; one more process needs up to %d", found, needed), moreRoom)
	default:
		e.ok("connections", found)
	}
}

// pooler checks that statements through the pooler reach the same database, with the required session settings.
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
		e.fail("pooler", err.Error(), "Check PARTNERD_DATABASE_POOLER_URL and the pooler: host, port, database, "+
			"role, password, and its connection to the server. partnerd does not start without it.")
		return
	}
	e.ok("pooler", "it points to the same database and applies the session settings")
}

func (e *examination) clock(h postgres.Health) {
	off := max(h.Ahead.Abs()-h.AskedWithin, 0)
	found := fmt.Sprintf("the database's clock and this machine's differ by %s", h.Ahead.Abs().Round(time.Millisecond))
	const do = "Synchronise both clocks (chrony, systemd-timesyncd). partnerd uses the database's clock; its " +
		"log and TLS use the machine's."
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
			"Run partnerd migrations up with PARTNERD_DATABASE_OWNER_URL to grant them.")
	case h.Owns && !e.Sandbox():
		e.warn("privileges", h.Role+" owns the tables or is a superuser: it can change the ledger and the audit log",
			"Give partnerd its own role, see PARTNERD_DATABASE_OWNER_URL.")
	default:
		e.ok("privileges", h.Role+" has the privileges it needs")
	}
}

func (e *examination) housekeeping(h postgres.Health) {
	before := len(e.found)
	if !h.Autovacuum {
		e.fail("autovacuum", "it is off: tables grow, and query plans use old statistics",
			"Set autovacuum and track_counts to on.")
	}
	if len(h.Unanalyzed) > 0 {
		e.warn("autovacuum", "no statistics exist for "+strings.Join(h.Unanalyzed, ", "),
			"Run ANALYZE once (after a restore or an upgrade), and check that autovacuum keeps up.")
	}
	if h.Age > 0.5 {
		e.fail("autovacuum", fmt.Sprintf("%.0f %% of the transaction IDs are used", 100*h.Age),
			"Run VACUUM FREEZE, and end what blocks it: long transactions, replication slots, prepared transactions.")
	}
	if h.Longest > longest {
		e.warn("transactions", "one has been open for "+h.Longest.Round(time.Second).String(),
			"Find its session in pg_stat_activity; it blocks migrations and vacuum.")
	}
	switch {
	case h.Deserted:
		e.fail("replication", "commits wait for a standby, but there is none",
			"Bring the standby back, or empty synchronous_standby_names until there is a new one: until then "+
				"every write waits.")
	case h.Lag > lagWarn:
		e.warn("replication", fmt.Sprintf("a standby is %s behind", h.Lag.Round(time.Second)),
			"Check its disk, network and long queries: unless it is synchronous, a failover to it loses "+
				"that much.")
	case h.Standbys > 0 && !h.Waits:
		e.warn("replication", fmt.Sprintf("%d standbys, but commits wait for none of them", h.Standbys),
			"A failover loses commits that partners already saw. Set synchronous_standby_names, and "+
				"synchronous_commit to on, or accept the risk: see \"Fail over the database\" in "+
				".deploy/operations.md.")
	case h.LagHidden:
		e.ok("replication", fmt.Sprintf("commits wait for one of %d standbys; their lag is hidden "+
			"from %s (GRANT pg_read_all_stats)", h.Standbys, h.Role))
	case h.Standbys > 0:
		e.ok("replication", fmt.Sprintf("%d standbys keep up; commits wait for %d of them", h.Standbys, h.Synchronous))
	}
	switch {
	case h.ArchiveFail:
		e.fail("archive", "the last WAL segment was not archived",
			"Look for archive_command in the server's log: until it works, the disk fills and you cannot "+
				"restore to a later time.")
	case !h.Archiving && !e.Sandbox():
		e.warn("archive", "the WAL is not archived: you can restore only the last dump",
			"Set archive_mode, see .deploy/operations.md.")
	}
	if len(e.found) == before {
		e.ok("housekeeping", "vacuum and archiving work")
	}
}

// schema checks the version of the schema. known reports whether the remaining checks can be run on it.
func (e *examination) schema(ctx context.Context, owner string) (known bool) {
	s, err := postgres.Migrations{URL: owner}.Status(ctx)
	switch {
	case err != nil:
		e.fail("schema", err.Error(), "Check PARTNERD_DATABASE_OWNER_URL.")
	case s.Check() != nil:
		e.fail("schema", s.Check().Error(), "Start the newer version.")
	case s.Newer():
		e.warn("schema", fmt.Sprintf("the database has schema %d, this version knows schema %d", s.Version, s.Known),
			"Replace the remaining processes of the older version.")
	case s.Version < s.Known:
		e.warn("schema", fmt.Sprintf("the database has schema %d, this version knows schema %d: %d migrations are "+
			"pending, and privileges and rows were not checked", s.Version, s.Known, s.Pending()),
			"Run partnerd migrations up or start a server, then run the doctor again.")
		return false
	default:
		e.ok("schema", fmt.Sprintf("%d, the latest", s.Version))
	}
	return err == nil
}
