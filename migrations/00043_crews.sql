-- +goose NO TRANSACTION
-- +goose Up

-- In a sandbox a partner may have simulated lawyers of his own, who serve his application alone, and say of a consultation who serves
-- it. In a live deployment both columns are NULL: everybody's lawyers, as before. Without a transaction, so that consultations go on
-- while the index is made; an attempt that was cut off leaves one that is not valid, hence the drop.
ALTER TABLE lawyers ADD COLUMN IF NOT EXISTS application_id text REFERENCES applications (id);
ALTER TABLE consultations ADD COLUMN IF NOT EXISTS crew text;
DROP INDEX CONCURRENTLY IF EXISTS consultations_crew;
CREATE INDEX CONCURRENTLY consultations_crew ON consultations (crew)
    WHERE crew IS NOT NULL AND status IN ('MATCHING', 'PENDING_CALLBACK');
DROP INDEX CONCURRENTLY IF EXISTS lawyers_of_application;
CREATE INDEX CONCURRENTLY lawyers_of_application ON lawyers (application_id) WHERE application_id IS NOT NULL;

-- How a consultation of a sandbox goes. act is what is left to happen that is no lawyer's work of every day.
CREATE TABLE IF NOT EXISTS sandbox_plays (
    consultation_id text PRIMARY KEY REFERENCES consultations (id) DEFERRABLE INITIALLY DEFERRED,
    scenario text NOT NULL,
    act text CHECK (act IN ('open', 'cancel', 'correct', 'refund'))
);
CREATE INDEX IF NOT EXISTS sandbox_plays_act ON sandbox_plays (consultation_id) WHERE act IS NOT NULL;

-- What a partner chose for the next consultations of a client.
CREATE TABLE IF NOT EXISTS sandbox_choices (
    application_id text NOT NULL REFERENCES applications (id),
    client_id text NOT NULL REFERENCES clients (id),
    scenario text NOT NULL,
    PRIMARY KEY (application_id, client_id)
);

-- A payment may be declined.
ALTER TABLE sandbox_payment_notices DROP CONSTRAINT IF EXISTS sandbox_payment_notices_kind_check,
    ADD CONSTRAINT sandbox_payment_notices_kind_check CHECK (kind IN ('checkout.paid', 'checkout.cancelled', 'checkout.failed')) NOT VALID;
ALTER TABLE sandbox_payment_notices VALIDATE CONSTRAINT sandbox_payment_notices_kind_check;

-- +goose Down
DELETE FROM sandbox_payment_notices WHERE kind = 'checkout.failed';
ALTER TABLE sandbox_payment_notices DROP CONSTRAINT sandbox_payment_notices_kind_check,
    ADD CONSTRAINT sandbox_payment_notices_kind_check CHECK (kind IN ('checkout.paid', 'checkout.cancelled'));
DROP TABLE sandbox_choices;
DROP TABLE sandbox_plays;
DROP INDEX consultations_crew;
ALTER TABLE consultations DROP COLUMN crew;
DROP INDEX lawyers_of_application;
ALTER TABLE lawyers DROP COLUMN application_id;
