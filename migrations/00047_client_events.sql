-- +goose Up
-- Events about clients, which an application turns on for itself. The new columns are empty for what is there.
ALTER TABLE webhook_endpoints ADD COLUMN enabled_events text[] NOT NULL DEFAULT '{}'
    CHECK (enabled_events <@ ARRAY['client.disconnected', 'wallet.topped_up']);
ALTER TABLE webhook_events ADD COLUMN client_id text; -- null: of a consultation, or a test event

-- Their numbers.
CREATE TABLE webhook_clients (
    application_id text NOT NULL REFERENCES applications,
    client_id      text NOT NULL REFERENCES clients,
    last_sequence  bigint NOT NULL CHECK (last_sequence > 0),
    PRIMARY KEY (application_id, client_id)
);

-- +goose Down
DROP TABLE webhook_clients;
DELETE FROM webhook_attempts WHERE delivery_id IN (SELECT d.id FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id WHERE e.client_id IS NOT NULL);
DELETE FROM webhook_deliveries WHERE event_id IN (SELECT id FROM webhook_events WHERE client_id IS NOT NULL);
DELETE FROM webhook_events WHERE client_id IS NOT NULL;
ALTER TABLE webhook_events DROP COLUMN client_id;
ALTER TABLE webhook_endpoints DROP COLUMN enabled_events;
