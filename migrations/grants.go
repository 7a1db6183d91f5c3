package migrations

// Grant lists the privileges of the program's role on a table, a sequence, or a function that is not open to PUBLIC. It
// has no privileges beyond these.
type Grant struct {
	Table      string // with its schema
	Privileges string // as in GRANT: SELECT, INSERT, UPDATE, DELETE, USAGE, each perhaps of columns (a, b), EXECUTE
}

// Grants are all privileges of the program's role. The role owns nothing, so it cannot change a table, its triggers or
// its grants, and it has TRUNCATE nowhere. SELECT … FOR UPDATE also needs UPDATE. Foreign keys delete and look up with
// the privileges of the tables' owner.
var Grants = []Grant{
	// Append-only.
	{"public.audit_entries", "SELECT, INSERT"},
	{"public.call_events", "SELECT, INSERT"},
	{"public.consultation_evidence", "SELECT, INSERT"},
	{"public.consultation_withdrawals", "SELECT, INSERT"},
	{"public.database_losses", "SELECT, INSERT"},
	{"public.evidence_chain", "SELECT, INSERT"},
	{"public.lawyer_wakeups", "SELECT, INSERT"},
	{"public.ledger_checks", "SELECT, INSERT"},
	{"public.ledger_transactions", "SELECT, INSERT"},
	{"public.payment_notices", "SELECT, INSERT"},
	{"public.postings", "SELECT, INSERT"},
	{"public.webhook_notices", "SELECT, INSERT"},
	{"public.oauth_grant_events", "SELECT, INSERT, DELETE"}, // the trigger permits only the purge

	// Written, never read: the full note.
	{"public.notes", "SELECT (consultation_id, lawyer_id, preview_sealed, digest, submitted_at, corrected_at, erased_at, copy_sealed, copy_taken_at), INSERT, UPDATE"},

	// Read-only.
	{"public.competences", "SELECT"},
	{"public.goose_db_version", "SELECT"},
	{"public.languages", "SELECT"},
	{"river.river_migration", "SELECT"},

	// The environment of a database never changes.
	{"public.deployment", "SELECT, INSERT, UPDATE (base_url)"},
	{"public.deployment_secrets", "SELECT, INSERT, UPDATE (secret_sealed)"},

	// Never deleted.
	{"public.applications", "SELECT, INSERT, UPDATE"},
	{"public.call_commands", "SELECT, INSERT, UPDATE"},
	{"public.calls", "SELECT, INSERT, UPDATE"},
	{"public.clients", "SELECT, INSERT, UPDATE"},
	{"public.conformance_runs", "SELECT, INSERT, UPDATE"},
	{"public.consultations", "SELECT, INSERT, UPDATE"},
	{"public.holds", "SELECT, INSERT, UPDATE"},
	{"public.ledger_seals", "SELECT, INSERT, UPDATE"},
	{"public.lawyer_pairs", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.lawyers", "SELECT, INSERT, UPDATE"},
	{"public.offers", "SELECT, INSERT, UPDATE"},
	{"public.operator_proposals", "SELECT, INSERT, UPDATE"},
	{"public.payment_reversals", "SELECT, INSERT, UPDATE"},
	{"public.sandbox_choices", "SELECT, INSERT, UPDATE"},
	{"public.sandbox_payment_notices", "SELECT, INSERT, UPDATE"},
	{"public.sandbox_plays", "SELECT, INSERT, UPDATE"},
	{"public.staff", "SELECT, INSERT, UPDATE"},
	{"public.topup_refunds", "SELECT, INSERT, UPDATE"},
	{"public.topup_sessions", "SELECT, INSERT, UPDATE"},
	{"public.twilio_legs", "SELECT, INSERT, UPDATE"},
	{"public.wallets", "SELECT, INSERT, UPDATE"},
	{"public.webhook_clients", "SELECT, INSERT, UPDATE"},
	{"public.webhook_endpoints", "SELECT, INSERT, UPDATE"},

	// Deleted by a purge, by an erasure or on expiry.
	{"public.operator_amounts", "SELECT, INSERT, DELETE"},
	{"public.note_recipients", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.application_members", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.portal_links", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.access_counts", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.api_requests", "SELECT, INSERT, DELETE"},
	{"public.rate_buckets", "SELECT, INSERT, UPDATE, DELETE"},
	{"vault.client_keys", "SELECT, INSERT, UPDATE (key_sealed), DELETE"},
	{"public.browser_sessions", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.client_links", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.client_passkeys", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.client_phone_codes", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.database_marks", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.estimates", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.idempotency_keys", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.lawyer_hours", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.lawyer_presence", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.lawyer_shifts", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.note_drafts", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.oauth_codes", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.oauth_consents", "SELECT, INSERT, DELETE"},
	{"public.oauth_grants", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.oauth_refresh_tokens", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.oauth_token_answers", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.passkey_challenges", "SELECT, INSERT, DELETE"},
	{"public.phone_code_counts", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.sandbox_clients", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.sandbox_lawyers", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.sandbox_messages", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.sandbox_call_steps", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.signing_keys", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.sms_messages", "SELECT, INSERT, DELETE"},
	{"public.status_days", "SELECT, INSERT, UPDATE"},
	{"public.staff_challenges", "SELECT, INSERT, DELETE"},
	{"public.staff_links", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.staff_passkeys", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.staff_recovery_codes", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.staff_sessions", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.webhook_attempts", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.webhook_deliveries", "SELECT, INSERT, UPDATE, DELETE"},
	{"public.webhook_events", "SELECT, INSERT, UPDATE, DELETE"},

	// Functions that act as the tables' owner: they create partitions, and drop past ones.
	{"public.add_partition", "EXECUTE"},
	{"public.drop_partitions", "EXECUTE"},

	// The queue's engine.
	{"river.river_job", "SELECT, INSERT, UPDATE, DELETE"},
	{"river.river_job_id_seq", "USAGE"},
	{"river.river_leader", "SELECT, INSERT, UPDATE, DELETE"},
	{"river.river_notification", "SELECT, INSERT, DELETE"},
	{"river.river_notification_id_seq", "USAGE"},
	{"river.river_queue", "SELECT, INSERT, UPDATE, DELETE"},
}
