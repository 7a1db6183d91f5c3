-- +goose Up
-- Up to where each wallet was examined and found right, and what it had then. What follows is examined daily, everything on demand.
CREATE TABLE ledger_seals (
    client_id       text PRIMARY KEY REFERENCES wallets,
    seq             bigint NOT NULL CHECK (seq > 0),
    hash            bytea NOT NULL,
    available_cents bigint NOT NULL,
    held_cents      bigint NOT NULL,
    last_entry_at   timestamptz NOT NULL
);
-- The same for what is compared with the ledger, and for the chain of the evidence; NULL when something was wrong.
ALTER TABLE ledger_checks ADD COLUMN sealed_at timestamptz, ADD COLUMN evidence_seq bigint, ADD COLUMN evidence_hash bytea,
    ADD COLUMN complete boolean NOT NULL DEFAULT true; -- not only what came after the seals

-- +goose Down
ALTER TABLE ledger_checks DROP COLUMN complete, DROP COLUMN evidence_hash, DROP COLUMN evidence_seq, DROP COLUMN sealed_at;
DROP TABLE ledger_seals;
