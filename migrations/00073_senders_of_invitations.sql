-- +goose Up

-- Who sent an invitation: it ends with their right to send it. NULL for a link that nobody else sent, and in the rows of an older program.
ALTER TABLE portal_links ADD COLUMN sent_by text;
ALTER TABLE staff_links ADD COLUMN sent_by text;

-- +goose Down
ALTER TABLE staff_links DROP COLUMN sent_by;
ALTER TABLE portal_links DROP COLUMN sent_by;
