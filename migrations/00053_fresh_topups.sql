-- +goose NO TRANSACTION
-- +goose Up

-- For the daily examination of the books: top-ups that ended lately, and the few movements that take one back. Without a transaction,
-- so that payments go on; an attempt that was cut off leaves an index that is not valid, hence the drops.
DROP INDEX CONCURRENTLY IF EXISTS topup_sessions_ended;
CREATE INDEX CONCURRENTLY topup_sessions_ended ON topup_sessions (ended_at) WHERE ended_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS ledger_transactions_taken_back;
CREATE INDEX CONCURRENTLY ledger_transactions_taken_back ON ledger_transactions (topup_id) WHERE type = 'ADJUSTMENT' AND topup_id IS NOT NULL;

-- +goose Down
DROP INDEX ledger_transactions_taken_back;
DROP INDEX topup_sessions_ended;
