-- +goose Up
-- After an attempt that the client did not answer, his lawyer says until choose_by that he waits for the next one; otherwise
-- the consultation goes back, and the next lawyer goes on with the attempts that are left, from next_dial_at on.
ALTER TABLE consultations
    ADD COLUMN earlier_attempts integer NOT NULL DEFAULT 0 CONSTRAINT consultations_earlier_attempts CHECK (earlier_attempts BETWEEN 0 AND 3), -- unanswered, with earlier lawyers
    ADD COLUMN choose_by timestamptz;

-- +goose Down
ALTER TABLE consultations DROP COLUMN earlier_attempts, DROP COLUMN choose_by;
