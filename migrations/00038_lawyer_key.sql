-- +goose NO TRANSACTION
-- +goose Up

-- A call in which the lawyer has answered and is asked to press 1. Without a transaction, so that calls go on while those that are
-- there are checked.
ALTER TABLE calls DROP CONSTRAINT IF EXISTS calls_state_check, ADD CONSTRAINT calls_state_check CHECK (state IN
    ('LAWYER_RINGING', 'LAWYER_CONFIRMING', 'CLIENT_RINGING', 'CONFIRMING', 'BRIDGING', 'BRIDGED', 'LOST', 'ENDED')) NOT VALID;
ALTER TABLE calls VALIDATE CONSTRAINT calls_state_check;

-- The desk says which call its lawyer did not take. An attempt that was cut off leaves an index that is not valid, hence the drop.
DROP INDEX CONCURRENTLY IF EXISTS calls_missed;
CREATE INDEX CONCURRENTLY calls_missed ON calls (lawyer_id, ended_at) WHERE outcome = 'LAWYER_NOT_REACHED';

-- +goose Down
DROP INDEX calls_missed;
UPDATE calls SET state = 'LAWYER_RINGING' WHERE state = 'LAWYER_CONFIRMING';
ALTER TABLE calls DROP CONSTRAINT calls_state_check, ADD CONSTRAINT calls_state_check CHECK (state IN
    ('LAWYER_RINGING', 'CLIENT_RINGING', 'CONFIRMING', 'BRIDGING', 'BRIDGED', 'LOST', 'ENDED'));
