-- +goose Up
-- One open offer per client: whoever has several consultations is served one at a time. Offers that ended earlier have
-- no client; of a client's offers that are open, the oldest counts.
ALTER TABLE offers
    ADD COLUMN client_id text REFERENCES clients,
    ADD COLUMN returned_at timestamptz; -- when an accepted consultation was taken from its lawyer or given back
UPDATE offers SET client_id = first.client_id
    FROM (SELECT DISTINCT ON (c.client_id) o.id, c.client_id FROM offers o JOIN consultations c ON c.id = o.consultation_id
        WHERE o.state = 'OPEN' ORDER BY c.client_id, o.created_at, o.id) first
    WHERE offers.id = first.id;
CREATE UNIQUE INDEX offers_open_client ON offers (client_id) WHERE state = 'OPEN';
CREATE INDEX consultations_engaged ON consultations (client_id) WHERE status IN ('ASSIGNED', 'IN_CALL');

-- +goose Down
DROP INDEX consultations_engaged;
DROP INDEX offers_open_client;
ALTER TABLE offers DROP COLUMN client_id, DROP COLUMN returned_at;
