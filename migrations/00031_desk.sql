-- +goose Up

-- What a lawyer has typed of a note so far, sealed by the client's key; it goes when the note is sent.
CREATE TABLE note_drafts (
    consultation_id text PRIMARY KEY REFERENCES consultations (id),
    lawyer_id       text NOT NULL REFERENCES lawyers (id),
    note_sealed     bytea NOT NULL,
    preview_sealed  bytea NOT NULL,
    saved_at        timestamptz NOT NULL
);
CREATE INDEX note_drafts_saved ON note_drafts (saved_at);

-- The lawyer goes AWAY instead of AVAILABLE when what he has in hand is over.
ALTER TABLE lawyers ADD COLUMN pause_next boolean NOT NULL DEFAULT false;

-- A lawyer's own history.
CREATE INDEX consultations_history ON consultations (lawyer_id, created_at DESC, id DESC) WHERE status IN ('COMPLETED', 'EXPIRED');

-- +goose Down
DROP INDEX consultations_history;
ALTER TABLE lawyers DROP COLUMN pause_next;
DROP TABLE note_drafts;
