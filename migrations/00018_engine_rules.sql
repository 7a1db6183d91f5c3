-- +goose Up
-- Where the client lives, for the hours at which he may be called back (a name of the IANA time zone database).
ALTER TABLE clients ADD COLUMN time_zone text NOT NULL DEFAULT 'Europe/Paris';

-- The hours of the client's day in which a callback may be offered: the present ones or the next.
ALTER TABLE consultations
    ADD COLUMN callable_from  timestamptz,
    ADD COLUMN callable_until timestamptz,
    ADD CONSTRAINT consultations_callable CHECK (callable_from < callable_until);
-- What waits for a callback gets its hours from its timer, which is due at once.
UPDATE consultations SET timer_at = updated_at WHERE status = 'PENDING_CALLBACK';

-- Notes that never came end seven days after the call, and their lawyers are free.
UPDATE lawyers SET state = 'AWAY' WHERE state = 'WRAP_UP'
    AND EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = lawyers.id AND c.status = 'CALL_ENDED' AND c.reminders >= 3)
    AND NOT EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = lawyers.id AND c.status = 'CALL_ENDED' AND c.reminders < 3);
UPDATE consultations SET timer_at = call_ended_at + interval '7 days' WHERE status = 'CALL_ENDED' AND timer_at IS NULL;
CREATE INDEX consultations_note_missing ON consultations (call_ended_at) WHERE status = 'CALL_ENDED';

-- Tells a note that is sent twice from a correction; keyed, because the note itself cannot be read again.
ALTER TABLE notes ADD COLUMN digest bytea;

-- +goose Down
ALTER TABLE notes DROP COLUMN digest;
DROP INDEX consultations_note_missing;
ALTER TABLE consultations DROP COLUMN callable_from, DROP COLUMN callable_until;
ALTER TABLE clients DROP COLUMN time_zone;
