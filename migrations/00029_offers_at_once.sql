-- +goose Up
-- A consultation is on offer to three lawyers at the most, in slots 1 to 3. As long as one of its offers is open, one is in
-- slot 1, so that a client is on offer with one consultation at a time: the slots of two would meet there. A program before
-- this knows nothing of slots and uses the first.
ALTER TABLE offers
    ADD COLUMN slot integer NOT NULL DEFAULT 1 CONSTRAINT offers_slot CHECK (slot BETWEEN 1 AND 3),
    -- why it went to this lawyer, and what was seen of the pair's queue at that moment; null in older offers
    ADD COLUMN why text CONSTRAINT offers_why CHECK (why IN ('LONGEST_IDLE', 'LAWYER_FREE', 'THREE_AT_ONCE', 'BY_HAND')),
    ADD COLUMN queue_seen integer, -- lawyers in the queue, 50 for 50 or more
    ADD COLUMN queue_place integer, -- the lawyer's place among them, 51 for any behind
    ADD COLUMN idle_since timestamptz; -- his
DROP INDEX offers_open_consultation;
DROP INDEX offers_open_client;
CREATE UNIQUE INDEX offers_open_consultation ON offers (consultation_id, slot) WHERE state = 'OPEN';
CREATE UNIQUE INDEX offers_open_client ON offers (client_id, slot) WHERE state = 'OPEN';

-- +goose Down
UPDATE offers SET state = 'REVOKED', ended_at = now() WHERE state = 'OPEN' AND slot > 1;
DROP INDEX offers_open_consultation;
DROP INDEX offers_open_client;
CREATE UNIQUE INDEX offers_open_consultation ON offers (consultation_id) WHERE state = 'OPEN';
CREATE UNIQUE INDEX offers_open_client ON offers (client_id) WHERE state = 'OPEN';
ALTER TABLE offers DROP COLUMN slot, DROP COLUMN why, DROP COLUMN queue_seen, DROP COLUMN queue_place, DROP COLUMN idle_since;
