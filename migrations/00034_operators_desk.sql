-- +goose NO TRANSACTION
-- +goose Up

-- Money that one person wants to move and another has to confirm. Kept for ever, like what came of it.
CREATE TABLE IF NOT EXISTS operator_proposals (
    id           text PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('REFUND', 'ADJUSTMENT')),
    subject      text NOT NULL, -- the consultation or the client
    amount_cents bigint NOT NULL CHECK (amount_cents <> 0),
    proposed_by  text NOT NULL REFERENCES staff,
    reason       text NOT NULL CHECK (reason <> ''),
    state        text NOT NULL CHECK (state IN ('OPEN', 'CONFIRMED', 'REFUSED', 'EXPIRED')),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    decided_by   text REFERENCES staff,
    decided_at   timestamptz,
    CHECK (state <> 'CONFIRMED' OR decided_by <> proposed_by AND decided_by IS NOT NULL),
    CHECK ((decided_by IS NULL) = (decided_at IS NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS operator_proposals_open ON operator_proposals (kind, subject) WHERE state = 'OPEN';
CREATE INDEX IF NOT EXISTS operator_proposals_subject ON operator_proposals (subject);

-- Operators look for a consultation by the partner's reference. Without a transaction, so that consultations go on; an attempt
-- that was cut off leaves an index that is not valid, hence the drop.
DROP INDEX CONCURRENTLY IF EXISTS consultations_reference;
CREATE INDEX CONCURRENTLY consultations_reference ON consultations (external_ref) WHERE external_ref IS NOT NULL;

-- +goose Down
DROP INDEX consultations_reference;
DROP TABLE operator_proposals;
