-- +goose Up

-- The public half of a lawyer's own key. The private half never was here.
CREATE TABLE note_recipients (
    lawyer_id text PRIMARY KEY REFERENCES lawyers,
    recipient text NOT NULL CHECK (recipient LIKE 'age1%'),
    set_at    timestamptz NOT NULL
);

-- The lawyer's copy of his note, encrypted to his own key, until he has taken it.
ALTER TABLE notes
    ADD COLUMN copy_sealed bytea,
    ADD COLUMN copy_taken_at timestamptz, -- first
    ADD CONSTRAINT notes_copy CHECK (copy_sealed IS NULL OR erased_at IS NULL);
CREATE INDEX notes_copies ON notes (coalesce(copy_taken_at, corrected_at, submitted_at)) WHERE copy_sealed IS NOT NULL;

-- +goose Down
ALTER TABLE notes DROP COLUMN copy_sealed, DROP COLUMN copy_taken_at;
DROP TABLE note_recipients;
