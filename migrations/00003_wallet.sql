-- +goose Up
-- Balances of a client's two accounts. They change only in the statement that inserts the postings that explain them.
CREATE TABLE wallets (
    client_id       text PRIMARY KEY REFERENCES clients,
    available_cents bigint NOT NULL DEFAULT 0,
    held_cents      bigint NOT NULL DEFAULT 0,
    entry_seq       bigint NOT NULL DEFAULT 0,
    last_entry_at   timestamptz NOT NULL,
    entry_hash      bytea NOT NULL DEFAULT '', -- of the newest transaction
    CONSTRAINT wallets_available CHECK (available_cents >= 0),
    CONSTRAINT wallets_held CHECK (held_cents >= 0)
);

CREATE TABLE topup_sessions (
    id             text PRIMARY KEY,
    client_id      text NOT NULL REFERENCES clients,
    application_id text REFERENCES applications,
    amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
    return_url     text NOT NULL,
    provider       text NOT NULL,
    provider_ref   text, -- the provider's own session, made when the client first opens the checkout
    provider_url   text, -- its page; empty for the built-in provider
    opened_at      timestamptz, -- when the provider was first asked for its session: part of the key of that request
    payment_ref    text, -- the provider's payment, from the notice that it was paid: what a refund goes to
    checkout_url   text NOT NULL,
    status         text NOT NULL CHECK (status IN ('OPEN', 'PAID', 'CANCELLED')), -- expired: OPEN after expires_at
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT topup_sessions_end CHECK ((status = 'OPEN') = (ended_at IS NULL))
);
CREATE INDEX topup_sessions_client ON topup_sessions (client_id, created_at);

CREATE TABLE ledger_transactions (
    id                    text PRIMARY KEY,
    client_id             text NOT NULL REFERENCES wallets,
    seq                   bigint NOT NULL,
    type                  text NOT NULL CHECK (type IN ('TOPUP', 'HOLD', 'RELEASE', 'CAPTURE', 'REFUND', 'ADJUSTMENT')),
    amount_cents          bigint NOT NULL,
    balance_after_cents   bigint NOT NULL,
    available_after_cents bigint NOT NULL,
    application_id        text,
    consultation_id       text,
    topup_id              text REFERENCES topup_sessions,
    description           text NOT NULL,
    created_at            timestamptz NOT NULL,
    hash                  bytea NOT NULL, -- ledger_hash over the wallet's transaction before, this one and its postings
    CONSTRAINT ledger_transactions_seq UNIQUE (client_id, seq)
);
-- A payment credits once, however often the provider says so; a consultation is captured and refunded at most once.
CREATE UNIQUE INDEX ledger_transactions_topup ON ledger_transactions (topup_id) WHERE type = 'TOPUP';
CREATE UNIQUE INDEX ledger_transactions_consultation ON ledger_transactions (consultation_id, type) WHERE consultation_id IS NOT NULL;

CREATE TABLE postings (
    transaction_id text NOT NULL REFERENCES ledger_transactions,
    account        text NOT NULL CHECK (account IN ('client_available', 'client_held', 'lawyer_fee', 'platform_fee', 'payment_clearing', 'refunds', 'adjustments')),
    client_id      text, -- whose account, for the client's accounts
    amount_cents   bigint NOT NULL CHECK (amount_cents <> 0),
    PRIMARY KEY (transaction_id, account),
    CONSTRAINT postings_client CHECK ((client_id IS NOT NULL) = (account IN ('client_available', 'client_held')))
);
CREATE INDEX postings_client_account ON postings (client_id, account) WHERE client_id IS NOT NULL;

CREATE TABLE holds (
    id                 text PRIMARY KEY,
    client_id          text NOT NULL REFERENCES wallets,
    application_id     text,
    consultation_id    text NOT NULL UNIQUE,
    amount_cents       bigint NOT NULL CHECK (amount_cents > 0),
    lawyer_fee_cents   bigint NOT NULL CHECK (lawyer_fee_cents > 0), -- who gets what, settled at the reservation
    platform_fee_cents bigint NOT NULL CHECK (platform_fee_cents > 0),
    state              text NOT NULL CHECK (state IN ('ACTIVE', 'CAPTURED', 'RELEASED')),
    refunded_cents     bigint CHECK (refunded_cents > 0 AND refunded_cents <= amount_cents), -- once, after the capture
    created_at         timestamptz NOT NULL,
    ended_at           timestamptz,
    CONSTRAINT holds_fees CHECK (lawyer_fee_cents + platform_fee_cents = amount_cents),
    CONSTRAINT holds_refund CHECK (refunded_cents IS NULL OR state = 'CAPTURED'),
    CONSTRAINT holds_end CHECK ((state = 'ACTIVE') = (ended_at IS NULL))
);
CREATE INDEX holds_active ON holds (client_id) WHERE state = 'ACTIVE';

-- Each transaction of a wallet is chained to the one before it, so that none can be changed, removed or put in between
-- without all later ones disagreeing. Postings are written account:cents, separated by commas, in the order of accounts.
-- +goose StatementBegin
CREATE FUNCTION ledger_hash(previous bytea, id text, client_id text, seq bigint, type text, amount_cents bigint, balance_after_cents bigint,
    available_after_cents bigint, application_id text, consultation_id text, topup_id text, description text, created_at timestamptz, postings text)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256($1 || convert_to(jsonb_build_array($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        to_char($13 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), $14)::text, 'UTF8'))
$$;
-- +goose StatementEnd

-- All postings of a transaction arrive in one statement, and that statement must balance.
-- +goose StatementBegin
CREATE FUNCTION postings_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added GROUP BY transaction_id HAVING sum(amount_cents) <> 0) THEN
        RAISE EXCEPTION 'postings do not balance' USING ERRCODE = 'check_violation', CONSTRAINT = 'postings_balance';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER postings_balance AFTER INSERT ON postings REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION postings_balance();
CREATE TRIGGER postings_append_only BEFORE UPDATE OR DELETE ON postings
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER postings_no_truncate BEFORE TRUNCATE ON postings
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER ledger_transactions_append_only BEFORE UPDATE OR DELETE ON ledger_transactions
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER ledger_transactions_no_truncate BEFORE TRUNCATE ON ledger_transactions
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- What payment providers told us: a notice is acted on once, and one that does not fit is kept as an incident.
CREATE TABLE payment_notices (
    provider     text NOT NULL,
    notice_id    text NOT NULL,
    kind         text NOT NULL,
    topup_id     text NOT NULL, -- as the provider says; there may be no such session
    amount_cents bigint NOT NULL,
    currency     text NOT NULL,
    outcome      text NOT NULL,
    received_at  timestamptz NOT NULL,
    PRIMARY KEY (provider, notice_id)
);

CREATE INDEX payment_notices_topup ON payment_notices (topup_id);
CREATE INDEX payment_notices_incidents ON payment_notices (received_at) WHERE outcome IN ('unknown_session', 'amount_mismatch', 'currency_mismatch', 'paid_twice');

-- Top-ups on their way back to where they came from. The money has left the wallet when the row is made; the provider is
-- asked until it says yes or never.
CREATE TABLE topup_refunds (
    id           text PRIMARY KEY,
    topup_id     text NOT NULL REFERENCES topup_sessions,
    client_id    text NOT NULL REFERENCES wallets,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    state        text NOT NULL CHECK (state IN ('PENDING', 'SENT', 'FAILED')),
    reason       text NOT NULL,
    provider_ref text,
    attempts     integer NOT NULL DEFAULT 0,
    next_at      timestamptz NOT NULL,
    last_error   text,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT topup_refunds_end CHECK ((state = 'PENDING') = (ended_at IS NULL))
);
CREATE INDEX topup_refunds_topup ON topup_refunds (topup_id);
CREATE INDEX topup_refunds_due ON topup_refunds (next_at) WHERE state = 'PENDING';

-- What each examination of the books found.
CREATE TABLE ledger_checks (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at        timestamptz NOT NULL,
    duration_ms       bigint NOT NULL,
    transactions      bigint NOT NULL,
    outstanding_cents bigint NOT NULL, -- what clients have in their wallets
    volume_cents      bigint NOT NULL, -- topped up within twelve months
    heads             bytea NOT NULL,  -- digest over the newest hash of every wallet: kept elsewhere, it seals the books
    findings          text[] NOT NULL
);

-- What operators did by hand, chained like the ledger.
CREATE TABLE audit_entries (
    seq        bigint PRIMARY KEY,
    id         text NOT NULL UNIQUE,
    actor      text NOT NULL,
    action     text NOT NULL,
    subject    text NOT NULL,
    reason     text NOT NULL CHECK (reason <> ''),
    details    text NOT NULL, -- JSON, as written
    created_at timestamptz NOT NULL,
    hash       bytea NOT NULL
);
CREATE INDEX audit_entries_subject ON audit_entries (subject, seq);
CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- The provider's side of the built-in sandbox checkout.
CREATE TABLE sandbox_payment_notices (
    id           text PRIMARY KEY,
    session_id   text NOT NULL REFERENCES topup_sessions,
    kind         text NOT NULL CHECK (kind IN ('checkout.paid', 'checkout.cancelled')),
    body         bytea NOT NULL,
    due_at       timestamptz NOT NULL, -- of the next attempt
    attempts     integer NOT NULL DEFAULT 0,
    delivered_at timestamptz
);
-- A checkout is decided once: paid or cancelled.
CREATE UNIQUE INDEX sandbox_payment_notices_session ON sandbox_payment_notices (session_id);
CREATE INDEX sandbox_payment_notices_due ON sandbox_payment_notices (due_at) WHERE delivered_at IS NULL;

-- +goose Down
DROP TABLE sandbox_payment_notices;
DROP TABLE audit_entries;
DROP TABLE ledger_checks;
DROP TABLE topup_refunds;
DROP TABLE payment_notices;
DROP TABLE holds;
DROP TABLE postings;
DROP TABLE ledger_transactions;
DROP TABLE topup_sessions;
DROP TABLE wallets;
DROP FUNCTION ledger_hash;
DROP FUNCTION postings_balance;
DROP FUNCTION append_only;
