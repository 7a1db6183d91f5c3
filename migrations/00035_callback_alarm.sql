-- +goose Up
-- When operators were told that a callback is due soon.
ALTER TABLE consultations ADD COLUMN alarmed_at timestamptz;
UPDATE consultations SET timer_at = least(timer_at, callback_due_at - interval '2 hours') WHERE status = 'PENDING_CALLBACK';

-- +goose Down
ALTER TABLE consultations DROP COLUMN alarmed_at;
