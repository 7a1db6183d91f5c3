-- +goose Up
-- The lease has a column that no index has: claiming then writes one row version and touches no index. next_at is when
-- the attempt is due, also while it is under way.
ALTER TABLE webhook_deliveries ADD COLUMN lease_until timestamptz;
UPDATE webhook_deliveries SET lease_until = next_at WHERE lease_token IS NOT NULL;
ALTER TABLE webhook_deliveries
    DROP CONSTRAINT webhook_deliveries_lease,
    ADD CONSTRAINT webhook_deliveries_lease
        CHECK ((lease_until IS NULL) = (lease_token IS NULL) AND (state = 'PENDING' OR lease_token IS NULL));

-- +goose Down
UPDATE webhook_deliveries SET next_at = lease_until WHERE lease_until IS NOT NULL;
ALTER TABLE webhook_deliveries
    DROP CONSTRAINT webhook_deliveries_lease,
    ADD CONSTRAINT webhook_deliveries_lease CHECK (state = 'PENDING' OR lease_token IS NULL),
    DROP COLUMN lease_until;
