-- +goose Up
-- Nobody waits for work who cannot be called: lawyers without a number are signed off until they have one.
UPDATE lawyer_pairs p SET idle_since = NULL FROM lawyers l
    WHERE l.id = p.lawyer_id AND l.phone_sealed IS NULL AND l.state IN ('AVAILABLE', 'AWAY');
DELETE FROM lawyer_presence h USING lawyers l WHERE l.id = h.lawyer_id AND l.phone_sealed IS NULL AND l.state IN ('AVAILABLE', 'AWAY');
UPDATE lawyers SET state = 'OFFLINE', lease_epoch = lease_epoch + 1 WHERE phone_sealed IS NULL AND state IN ('AVAILABLE', 'AWAY');
ALTER TABLE lawyers ADD CONSTRAINT lawyers_phone CHECK (state <> 'AVAILABLE' OR phone_sealed IS NOT NULL);

-- +goose Down
ALTER TABLE lawyers DROP CONSTRAINT lawyers_phone;
