-- +goose Up

-- What one operator alone has given or taken at the desk, to be summed up over a day. Older rows of a person go when the next is written.
CREATE TABLE operator_amounts (
    entry_id     text PRIMARY KEY, -- of the audit
    operator_id  text NOT NULL REFERENCES staff (id),
    client_id    text NOT NULL REFERENCES clients (id),
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    moved_at     timestamptz NOT NULL
);
CREATE INDEX operator_amounts_operator ON operator_amounts (operator_id, moved_at);
CREATE INDEX operator_amounts_client ON operator_amounts (client_id, moved_at);

-- +goose Down
DROP TABLE operator_amounts;
