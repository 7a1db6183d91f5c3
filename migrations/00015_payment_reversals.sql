-- +goose Up
-- What providers said of money that left a payment again: disputes, and refunds that were not asked for by us. One row for
-- each object of the provider; what it says only ever becomes more, so that the order of its notices does not matter.
CREATE TABLE payment_reversals (
    provider     text NOT NULL,
    ref          text NOT NULL, -- the provider's dispute, refund or charge
    payment_ref  text NOT NULL, -- as topup_sessions.payment_ref; that may become known later
    kind         text NOT NULL CHECK (kind IN ('DISPUTE', 'REFUND', 'REFUNDED')), -- REFUNDED: what a charge has refunded in all, without ours
    amount_cents bigint NOT NULL CHECK (amount_cents >= 0),
    gone         boolean NOT NULL, -- the provider took the money
    back         boolean NOT NULL, -- the provider gave it back, or never moved it
    PRIMARY KEY (provider, ref)
);
CREATE INDEX payment_reversals_payment ON payment_reversals (provider, payment_ref);
CREATE INDEX topup_sessions_payment ON topup_sessions (provider, payment_ref) WHERE payment_ref IS NOT NULL;

ALTER TABLE topup_sessions
    ADD COLUMN reversed_cents  bigint NOT NULL DEFAULT 0 CHECK (reversed_cents >= 0), -- taken out of the wallet because the provider took it from us
    ADD COLUMN uncovered_cents bigint NOT NULL DEFAULT 0 CHECK (uncovered_cents >= 0); -- likewise, but the wallet did not have it

ALTER TABLE payment_notices ADD COLUMN payment_ref text NOT NULL DEFAULT '';
DROP INDEX payment_notices_incidents;
CREATE INDEX payment_notices_incidents ON payment_notices (received_at) WHERE outcome IN ('unknown_session', 'amount_mismatch', 'currency_mismatch',
    'paid_twice', 'credited_to_closed', 'disputed', 'refunded_at_provider', 'refund_failed', 'unknown_payment');

-- +goose Down
DROP INDEX payment_notices_incidents;
CREATE INDEX payment_notices_incidents ON payment_notices (received_at) WHERE outcome IN ('unknown_session', 'amount_mismatch', 'currency_mismatch', 'paid_twice');
ALTER TABLE payment_notices DROP COLUMN payment_ref;
ALTER TABLE topup_sessions DROP COLUMN reversed_cents, DROP COLUMN uncovered_cents;
DROP INDEX topup_sessions_payment;
DROP TABLE payment_reversals;
