-- +goose NO TRANSACTION
-- +goose Up

-- What a list is filtered by, where the wanted rows are few among many. Each index is partial, so that little is written to it: a
-- consultation enters the first at its creation and leaves with its end, and enters the second when it ends without having been
-- served; a delivery enters the third when it fails for good. Without a transaction, so that all goes on while they are made; an
-- attempt that was cut off leaves an index that is not valid, hence the drops.
DROP INDEX CONCURRENTLY IF EXISTS consultations_open;
CREATE INDEX CONCURRENTLY consultations_open ON consultations (client_id)
    WHERE status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED', 'IN_CALL', 'CALL_ENDED');
DROP INDEX CONCURRENTLY IF EXISTS consultations_unserved;
CREATE INDEX CONCURRENTLY consultations_unserved ON consultations (application_id, client_id, created_at DESC, id DESC)
    WHERE status IN ('CANCELLED', 'EXPIRED');
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_failed;
CREATE INDEX CONCURRENTLY webhook_deliveries_failed ON webhook_deliveries (application_id, created_at, id) WHERE state = 'FAILED';
DROP INDEX CONCURRENTLY IF EXISTS sandbox_messages_client;
CREATE INDEX CONCURRENTLY sandbox_messages_client ON sandbox_messages (application_id, client_id, id);

-- +goose Down
DROP INDEX sandbox_messages_client;
DROP INDEX webhook_deliveries_failed;
DROP INDEX consultations_unserved;
DROP INDEX consultations_open;
