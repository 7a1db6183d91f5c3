-- +goose Up

-- Deliveries that may not be sent (no URL, endpoint disabled, application suspended) are marked, so that looking for due ones
-- does not pass them. webhook_deliveries_due keeps everything that is pending, for what counts it. Building the two indexes reads the
-- table twice, a second or two a million deliveries, and events wait meanwhile.
ALTER TABLE webhook_deliveries ADD COLUMN held boolean NOT NULL DEFAULT false; -- only while the endpoint is parked
ALTER TABLE webhook_endpoints ADD COLUMN parked boolean NOT NULL DEFAULT false; -- deliveries may be marked as held
-- Not "state = 'PENDING'", which means the same: webhook_deliveries_due would serve that, too, and has what is held.
CREATE INDEX webhook_deliveries_ready ON webhook_deliveries (application_id, next_at) WHERE ended_at IS NULL AND NOT held;
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (application_id, next_at) WHERE held;
-- Endpoints whose held deliveries may go, but for those of suspended applications.
CREATE INDEX webhook_endpoints_parked ON webhook_endpoints (application_id) WHERE parked AND url IS NOT NULL AND disabled_at IS NULL;

-- +goose Down
DROP INDEX webhook_endpoints_parked;
DROP INDEX webhook_deliveries_held;
DROP INDEX webhook_deliveries_ready;
ALTER TABLE webhook_endpoints DROP COLUMN parked;
ALTER TABLE webhook_deliveries DROP COLUMN held;
