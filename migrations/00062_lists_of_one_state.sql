-- +goose NO TRANSACTION
-- +goose Up

-- What is listed by its state is listed without what lies between, also the state that most come to: deliveries that arrived, where an
-- endpoint was away for long, and consultations by how they ended. A delivery or a consultation enters its index when it ends, and one only.
-- The index that cancelled and expired consultations shared goes: until the program before this one is replaced, it finds them among all
-- of their client. Without a transaction, so that all goes on meanwhile.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_delivered;
CREATE INDEX CONCURRENTLY webhook_deliveries_delivered ON webhook_deliveries (application_id, created_at, id) WHERE state = 'DELIVERED';
DROP INDEX CONCURRENTLY IF EXISTS consultations_completed;
CREATE INDEX CONCURRENTLY consultations_completed ON consultations (application_id, client_id, created_at DESC, id DESC) WHERE status = 'COMPLETED';
DROP INDEX CONCURRENTLY IF EXISTS consultations_cancelled;
CREATE INDEX CONCURRENTLY consultations_cancelled ON consultations (application_id, client_id, created_at DESC, id DESC) WHERE status = 'CANCELLED';
DROP INDEX CONCURRENTLY IF EXISTS consultations_expired;
CREATE INDEX CONCURRENTLY consultations_expired ON consultations (application_id, client_id, created_at DESC, id DESC) WHERE status = 'EXPIRED';
DROP INDEX CONCURRENTLY IF EXISTS consultations_unserved;
RESET lock_timeout;

-- +goose Down
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS consultations_unserved;
CREATE INDEX CONCURRENTLY consultations_unserved ON consultations (application_id, client_id, created_at DESC, id DESC)
    WHERE status IN ('CANCELLED', 'EXPIRED');
DROP INDEX CONCURRENTLY IF EXISTS consultations_expired;
DROP INDEX CONCURRENTLY IF EXISTS consultations_cancelled;
DROP INDEX CONCURRENTLY IF EXISTS consultations_completed;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_delivered;
RESET lock_timeout;
