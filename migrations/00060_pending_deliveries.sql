-- +goose NO TRANSACTION
-- +goose Up

-- The pending deliveries of an application in the order of its list, however many were delivered before. The index of pending deliveries by
-- when they are due, which looks at the same rows, goes: what is to be sent has its own, webhook_deliveries_ready and _held. So a webhook
-- writes as many entries as before. Those of consultations that are engaged are found among the open ones of their client.
-- Without a transaction, so that all goes on meanwhile.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_pending;
CREATE INDEX CONCURRENTLY webhook_deliveries_pending ON webhook_deliveries (application_id, created_at, id) WHERE state = 'PENDING';
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_due;
DROP INDEX CONCURRENTLY IF EXISTS consultations_engaged;
RESET lock_timeout;

-- +goose Down
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS consultations_engaged;
CREATE INDEX CONCURRENTLY consultations_engaged ON consultations (client_id) WHERE status IN ('ASSIGNED', 'IN_CALL');
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_due;
CREATE INDEX CONCURRENTLY webhook_deliveries_due ON webhook_deliveries (application_id, next_at) WHERE state = 'PENDING';
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_pending;
RESET lock_timeout;
