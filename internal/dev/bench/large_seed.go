package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// past is one part of a service's history, written by statements in the database. Its consultations are over. Each has
// its offer, call, evidence, hold, five transactions, three delivered events, a request and a refresh. Everything is
// from the last twenty days, so no purge deletes it. One busy client has every fiftieth consultation; the others have
// about a hundred each.
type past struct {
	part int // number that is part of all IDs
	n    int // consultations; at least 1000
}

// Both parts have the same applications and lawyers, so the same calls can be measured after each.
const (
	pastApplications = 20
	pastLawyers      = 200
	deafApplication  = "app_large_19" // its endpoint has been failing for a day
	readApplication  = "app_large_0"  // polls its events; the others only wait for deliveries
	newsApplication  = "app_large_2"  // polls too, and always has unread events
)

// busy is the client with a fiftieth of this part's consultations, at [readApplication].
func (p past) busy() string   { return fmt.Sprintf("cli_large_%d_0", p.part) }
func (p past) client() string { return fmt.Sprintf("cli_large_%d_20", p.part) } // an ordinary client, same application
func (p past) of(i int) string {
	return fmt.Sprintf("con_large_%d_%09d", p.part, i)
}

// pastTables are exactly the tables that grow with use.
var pastTables = []string{"clients", "wallets", "consultations", "consultation_evidence", "evidence_chain", "offers",
	"calls", "topup_sessions", "holds", "ledger_transactions", "postings", "webhook_events", "webhook_deliveries",
	"webhook_attempts", "api_requests", "idempotency_keys", "sandbox_messages", "oauth_grant_events"}

// house writes what exists before the past, once.
var house = []string{
	`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
		SELECT 'app_large_' || n, 'Demo CRM', '{}', '{}', '', now(), now() FROM generate_series(0, 19) n`,
	`INSERT INTO webhook_endpoints (application_id, url, secret_sealed, failing_since, created_at, updated_at)
		SELECT 'app_large_' || n, 'https://crm.example/hooks', '\x00', CASE WHEN n = 19 THEN now() - interval '1 day' END, now(), now() FROM generate_series(0, 19) n`,
	`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at)
		SELECT 'law_large_' || n, 'large-' || n || '@lawyer.example', 'Demo Lawyer', '', 'OFFLINE', now(), now() FROM generate_series(0, 199) n`,
	`INSERT INTO lawyer_pairs (lawyer_id, competence, language) SELECT l.id, c.code, g.code FROM lawyers l, competences c, languages g
		WHERE l.id LIKE 'law\_large\_%' AND g.code IN ('FR', 'EN')`,
	// One consultation of each kind waits, so queries for work always find some, whatever the size of the past.
	`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_large_open', 'large-open@client.example', 'Demo Client', '', now(), now())`,
	`INSERT INTO consultations (id, application_id, client_id, status, competence, language, erased_at, recording_consent, price_cents,
			created_at, updated_at, search_started_at, timer_at)
		SELECT 'con_large_open_' || c.code || l.code, 'app_large_0', 'cli_large_open', 'MATCHING', c.code, l.code, now(), false, 2000, now(), now(), now(), now() + interval '1 day'
		FROM competences c, languages l`,
	// These aggregates use the program's hash functions. As window functions they build the chains in one pass.
	`CREATE AGGREGATE bench_ledger_chain(text, text, bigint, text, bigint, bigint, bigint, text, text, text, text, timestamptz, text) (SFUNC = ledger_hash, STYPE = bytea, INITCOND = '')`,
	`CREATE AGGREGATE bench_evidence_chain(text, text, text, timestamptz, text, bytea, text, text, text, bytea, text, text) (SFUNC = evidence_hash, STYPE = bytea, INITCOND = '')`,
}

// pastOf numbers the consultations of a part: $1 is the part, $2 how many. Columns: i, id, client, app, law,
// competence, language, status, t, j.
const pastOf = `(SELECT i, 'con_large_' || $1::int || '_' || to_char(i, 'FM000000000') AS id, 'cli_large_' || $1::int || '_' || c AS client, 'app_large_' || c % 20 AS app,
		'law_large_' || i % 200 AS law, (ARRAY['FAMILY', 'LABOUR', 'HOUSING', 'CONSUMER'])[1 + i % 4] AS competence, (ARRAY['FR', 'FR', 'FR', 'EN'])[1 + i / 4 % 4] AS language,
		CASE WHEN i % 10 < 7 THEN 'COMPLETED' WHEN i % 10 < 9 THEN 'CANCELLED' ELSE 'EXPIRED' END AS status, date_trunc('second', now()) - interval '20 days' * (1 - i::float8 / $2::int) + $1::int * interval '1 microsecond' AS t
	FROM (SELECT i, CASE WHEN i % 50 = 0 THEN 0 ELSE 1 + i % greatest($2::int / 100, 50) END AS c FROM generate_series(0, $2::int - 1) i) numbered)`

// Statements of different lists may run concurrently. Within a list the order follows the foreign keys.
var pastLists = [][]string{{
	`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		SELECT DISTINCT client, client || '@client.example', 'Demo Client', '', now() - interval '21 days', now() FROM ` + pastOf + ` p`,
	`INSERT INTO consultations (id, application_id, client_id, status, competence, language, erased_at, recording_consent, price_cents, external_ref, event_seq,
			created_at, updated_at, search_started_at, first_assigned_at, assigned_at, lawyer_id, call_started_at, call_ended_at, duration_sec, completed_at, cancelled_at, expired_at)
		SELECT id, app, client, status, competence, language, t, false, 2000, 'case-' || i / 10, 3, t, t, t,
			CASE WHEN done THEN t + interval '10 seconds' END, CASE WHEN done THEN t + interval '10 seconds' END, CASE WHEN done THEN law END,
			CASE WHEN done THEN t + interval '1 minute' END, CASE WHEN done THEN t + interval '10 minutes' END, CASE WHEN done THEN 540 END,
			CASE WHEN done THEN t + interval '12 minutes' END, CASE WHEN status = 'CANCELLED' THEN t END, CASE WHEN status = 'EXPIRED' THEN t END
		FROM ` + pastOf + ` p, LATERAL (SELECT status = 'COMPLETED' AS done) d`,
	`INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, ended_at)
		SELECT 'off_' || id, id, client, law, CASE WHEN status = 'COMPLETED' THEN 'ACCEPTED' ELSE 'EXPIRED' END, t + interval '1 second', t + interval '31 seconds', t + interval '10 seconds'
		FROM ` + pastOf + ` p WHERE status <> 'CANCELLED'`,
	`INSERT INTO calls (id, consultation_id, client_id, lawyer_id, attempt, language, last_event_at, started_at, ended_at, record, state, outcome)
		SELECT 'cll_' || id, id, client, law, 1, language, t, t, t, false, 'ENDED', 'FINISHED' FROM ` + pastOf +
		` p WHERE status = 'COMPLETED'`,
	`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at, position)
		SELECT 'evt_' || id || '_' || k, app, id, k, 'consultation.matching', convert_to(repeat('x', 250), 'UTF8'), t + k * interval '1 second',
			CASE WHEN app IN ('app_large_0', 'app_large_2') THEN $1::int * 100000000::bigint + row_number() OVER (PARTITION BY app ORDER BY i, k) END
		FROM ` + pastOf + ` p, generate_series(1, 3) k`,
	`INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, attempts, next_at, created_at, ended_at)
		SELECT 'dlv_' || id || '_' || k, 'evt_' || id || '_' || k, app, id, k,
			CASE WHEN deaf THEN 'PENDING' WHEN i % 200 = 7 THEN 'FAILED' ELSE 'DELIVERED' END, 1, CASE WHEN deaf THEN now() + interval '3 hours' ELSE t END, t + k * interval '1 second', CASE WHEN NOT deaf THEN t END
		FROM ` + pastOf + ` p, generate_series(1, 3) k, LATERAL (SELECT app = 'app_large_19' AS deaf) d`,
	`INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms, status_code)
		SELECT 'dlv_' || id || '_' || k, 1, t, 12, 204 FROM ` + pastOf + ` p, generate_series(1, 3) k`,
	`UPDATE webhook_endpoints SET last_position = $1::int * 100000000::bigint + $2 WHERE application_id IN ('app_large_0', 'app_large_2')`,
	`INSERT INTO api_requests (application_id, id, at, method, path, status, code, duration_us, keyed, replayed)
		SELECT app, 'req_' || id, t, 'POST', '/api/v1/consultations', CASE WHEN i % 20 = 3 THEN 422 ELSE 201 END, CASE WHEN i % 20 = 3 THEN 'VALIDATION_FAILED' END, 9000, true, false
		FROM ` + pastOf + ` p`,
	`INSERT INTO idempotency_keys (application_id, client_id, endpoint, key, fingerprint, status, body, created_at, expires_at)
		SELECT app, client, 'POST /consultations', id, sha256(''), 201, '\x00', t, now() + interval '1 day' FROM ` +
		pastOf + ` p WHERE i % 20 = 0`,
	`INSERT INTO sandbox_messages (id, application_id, client_id, kind, sealed, sent_at)
		SELECT 'msg_' || id, app, client, 'TEXT_MESSAGE', '\x00', t FROM ` + pastOf +
		` p WHERE i % 10 = 0 AND client <> 'cli_large_' || $1::int || '_20'`,
	`INSERT INTO oauth_grant_events (grant_id, application_id, client_id, event, reason, created_at)
		SELECT 'grt_' || client, app, client, CASE WHEN i % 20 = 1 THEN 'created' ELSE 'refreshed' END, '', t FROM ` +
		pastOf + ` p`,
}, {
	`INSERT INTO consultation_evidence (consultation_id, application_id, client_id, acknowledged_at, text_version, text_sha256, request_id, idempotency_key_sha256, address, user_agent)
		SELECT id, app, client, t, '2026-01', sha256(''), 'req_' || id, sha256(''), '', '' FROM ` + pastOf + ` p`,
	`INSERT INTO topup_sessions (id, client_id, application_id, amount_cents, return_url, provider, checkout_url, status, created_at, expires_at, ended_at)
		SELECT 'top_' || id, client, app, 2000, '', 'sandbox', '', 'PAID', t, t, t FROM ` + pastOf +
		` p WHERE i % 10 = 1`,
	`INSERT INTO holds (id, client_id, application_id, consultation_id, amount_cents, lawyer_fee_cents, platform_fee_cents, state, created_at, ended_at)
		SELECT 'hld_' || id, client, app, id, 2000, 1700, 300, CASE WHEN status = 'COMPLETED' THEN 'CAPTURED' ELSE 'RELEASED' END, t, t FROM ` + pastOf + ` p`,
	`WITH movements AS (
			SELECT p.*, m.*, 5 * (row_number() OVER (PARTITION BY client, k ORDER BY i) - 1) + k AS seq
			FROM ` + pastOf + ` p, LATERAL (VALUES
				(1, CASE WHEN i % 10 = 1 THEN 'TOPUP' ELSE 'ADJUSTMENT' END, 2000, 2000, 0), (2, 'ADJUSTMENT', 100, 100, 0), (3, 'ADJUSTMENT', -100, -100, 0), (4, 'HOLD', -2000, -2000, 2000),
				(5, CASE WHEN status = 'COMPLETED' THEN 'CAPTURE' ELSE 'RELEASE' END, CASE WHEN status = 'COMPLETED' THEN -2000 ELSE 2000 END, CASE WHEN status = 'COMPLETED' THEN 0 ELSE 2000 END, -2000)
			) m (k, type, amount, available, held)
		), sums AS (
			SELECT *, 'txn_large_' || client || '_' || to_char(seq, 'FM000000000') AS txn, sum(available + held) OVER w AS balance_after, sum(available) OVER w AS available_after,
				CASE WHEN k > 3 THEN id END AS con, CASE WHEN type = 'TOPUP' THEN 'top_' || id END AS top,
				CASE type WHEN 'TOPUP' THEN 'client_available:2000,payment_clearing:-2000' WHEN 'HOLD' THEN 'client_available:-2000,client_held:2000'
					WHEN 'RELEASE' THEN 'client_available:2000,client_held:-2000' WHEN 'CAPTURE' THEN 'client_held:-2000,lawyer_fee:1700,platform_fee:300'
					ELSE 'adjustments:' || -amount || ',client_available:' || amount END AS posted
			FROM movements WINDOW w AS (PARTITION BY client ORDER BY seq)
		)
		INSERT INTO ledger_transactions (id, client_id, seq, type, amount_cents, balance_after_cents, available_after_cents, application_id, consultation_id, topup_id, description, created_at, hash)
		SELECT txn, client, seq, type, amount, balance_after, available_after, app, con, top, 'Movement', t,
			bench_ledger_chain(txn, client, seq, type, amount, balance_after::bigint, available_after::bigint, app, con, top, 'Movement', t, posted) OVER (PARTITION BY client ORDER BY seq)
		FROM sums`,
	`INSERT INTO postings (transaction_id, account, amount_cents, client_id)
		SELECT t.id, p.account, p.amount, CASE WHEN p.account LIKE 'client%' THEN t.client_id END FROM ledger_transactions t, LATERAL (
			SELECT 'client_available', t.amount_cents WHERE t.type <> 'CAPTURE'
			UNION ALL SELECT 'client_held', CASE t.type WHEN 'CAPTURE' THEN t.amount_cents ELSE -t.amount_cents END WHERE t.type IN ('HOLD', 'RELEASE', 'CAPTURE')
			UNION ALL SELECT 'payment_clearing', -t.amount_cents WHERE t.type = 'TOPUP'
			UNION ALL SELECT 'adjustments', -t.amount_cents WHERE t.type = 'ADJUSTMENT'
			UNION ALL SELECT a, c FROM (VALUES ('lawyer_fee', 1700), ('platform_fee', 300)) v (a, c) WHERE t.type = 'CAPTURE'
		) p (account, amount) WHERE t.client_id LIKE 'cli\_large\_' || $1::int || '\_%' AND $2::int > 0`,
	`INSERT INTO wallets (client_id, available_cents, held_cents, entry_seq, last_entry_at, entry_hash)
		SELECT DISTINCT ON (client_id) client_id, available_after_cents, balance_after_cents - available_after_cents, seq, created_at, hash
		FROM ledger_transactions WHERE client_id LIKE 'cli\_large\_' || $1::int || '\_%' AND $2::int > 0 ORDER BY client_id, seq DESC`,
	// Covers both parts, because an aggregate cannot continue from a hash.
	`DELETE FROM evidence_chain WHERE $1::int + $2::int > 0`,
	`INSERT INTO evidence_chain (seq, consultation_id, chained_at, hash)
		SELECT row_number() OVER w, consultation_id, acknowledged_at,
			bench_evidence_chain(consultation_id, application_id, client_id, acknowledged_at, text_version, text_sha256, stated_version, stated_language, request_id, idempotency_key_sha256, address, user_agent) OVER w
		FROM consultation_evidence WHERE $1::int + $2::int > 0 WINDOW w AS (ORDER BY consultation_id)`,
}}

// fill writes the part as a superuser, two statements at a time. The data is known to be consistent, so foreign keys
// and totals are not checked again.
func (p past) fill(ctx context.Context, url string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, list := range pastLists {
		g.Go(func() error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			for _, sql := range []string{"SET session_replication_role = replica", "SET synchronous_commit = off",
				"SET work_mem = '256MB'", "SET jit = off"} {
				if _, err := conn.Exec(ctx, sql); err != nil {
					return err
				}
			}
			for _, sql := range list {
				if _, err := conn.Exec(ctx, sql, p.part, p.n); err != nil {
					return fmt.Errorf("%.60s: %w", sql, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}
