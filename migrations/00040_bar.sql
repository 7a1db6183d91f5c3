-- +goose Up
-- Where a lawyer is entered, and until when somebody here has checked that. A live deployment keeps others from duty; those who are
-- there when this begins have 30 days.
ALTER TABLE lawyers
    ADD COLUMN bar text,
    ADD COLUMN bar_number text,
    ADD COLUMN bar_checked_until timestamptz,
    ADD CONSTRAINT lawyers_bar CHECK ((bar IS NULL) = (bar_number IS NULL));
UPDATE lawyers SET bar_checked_until = now() + interval '30 days' WHERE NOT simulated;
