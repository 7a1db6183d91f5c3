-- +goose Up
-- What partners chose survives no erasure: of the key of a creation, the proof keeps the SHA-256. Rewriting the column
-- changes no row in the eyes of the trigger that keeps the table append-only.
ALTER TABLE consultation_evidence ALTER COLUMN idempotency_key TYPE bytea USING sha256(convert_to(idempotency_key, 'UTF8'));
ALTER TABLE consultation_evidence RENAME COLUMN idempotency_key TO idempotency_key_sha256;

-- The same for clients who were erased before: the reference in bodies of events, what endpoints answered to them, and
-- the address that a top-up led back to.
UPDATE webhook_attempts a SET response_body = ''
    FROM consultations c, webhook_events e, webhook_deliveries d
    WHERE c.erased_at IS NOT NULL AND e.consultation_id = c.id AND d.event_id = e.id AND a.delivery_id = d.id AND a.response_body <> '';
UPDATE webhook_events e SET body = convert_to(regexp_replace(convert_from(e.body, 'UTF8'), ',"externalRef":"([^"\\]|\\.)*"', ''), 'UTF8')
    FROM consultations c WHERE c.erased_at IS NOT NULL AND e.consultation_id = c.id;
UPDATE topup_sessions s SET return_url = '' FROM clients c WHERE c.erased_at IS NOT NULL AND s.client_id = c.id;

-- +goose Down
ALTER TABLE consultation_evidence RENAME COLUMN idempotency_key_sha256 TO idempotency_key;
ALTER TABLE consultation_evidence ALTER COLUMN idempotency_key TYPE text USING encode(idempotency_key, 'hex');
