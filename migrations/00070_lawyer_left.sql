-- +goose Up
-- Why and since when a lawyer is off duty or paused, for their desk to say; null while they are on duty, and for those who left before this.
ALTER TABLE lawyers
    ADD COLUMN left_reason text,
    ADD COLUMN left_at timestamptz,
    ADD CONSTRAINT lawyers_left CHECK ((left_reason IS NULL) = (left_at IS NULL)),
    ADD CONSTRAINT lawyers_left_reason CHECK (left_reason IN ('SIGNED_OFF', 'PAUSED', 'PAUSED_AFTER', 'NO_PAGE', 'MISSED_OFFER',
        'NOT_REACHED', 'NOT_DIALLED', 'NOTE_MISSING', 'SUSPENDED', 'SENT_HOME', 'RECORDS_DISAGREE'));

-- +goose Down
ALTER TABLE lawyers DROP COLUMN left_reason, DROP COLUMN left_at;
