-- +goose Up
-- What a partner was told about the wait for a client, until the client's consultation begins or ten minutes have passed.
CREATE TABLE estimates (
    application_id text NOT NULL REFERENCES applications,
    client_id text NOT NULL REFERENCES clients,
    competence text NOT NULL,
    language text NOT NULL,
    seconds integer, -- null: that nothing is known
    lawyers_online integer NOT NULL,
    lawyers_idle integer NOT NULL,
    ahead integer NOT NULL, -- consultations that waited for a lawyer of the pair
    told_at timestamptz NOT NULL,
    PRIMARY KEY (application_id, client_id, competence, language)
);
CREATE INDEX estimates_told ON estimates (told_at);

-- What was told before a consultation began, and when a lawyer accepted it first: what was true.
ALTER TABLE consultations
    ADD COLUMN estimate_sec integer,
    ADD COLUMN estimate_online integer,
    ADD COLUMN estimate_idle integer,
    ADD COLUMN estimate_ahead integer,
    ADD COLUMN estimate_told_at timestamptz, -- null: the partner did not ask
    ADD COLUMN first_assigned_at timestamptz;
-- Reports read periods of tables that grow in the order of time.
CREATE INDEX consultations_period ON consultations USING brin (created_at) WITH (pages_per_range = 32);
CREATE INDEX offers_period ON offers USING brin (created_at) WITH (pages_per_range = 32);

-- When a lawyer was on duty: AVAILABLE, OFFERED, BUSY or in WRAP_UP.
CREATE TABLE lawyer_shifts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lawyer_id text NOT NULL REFERENCES lawyers,
    from_at timestamptz NOT NULL,
    until_at timestamptz, -- null while it goes on
    CONSTRAINT lawyer_shifts_order CHECK (from_at <= until_at)
);
CREATE UNIQUE INDEX lawyer_shifts_open ON lawyer_shifts (lawyer_id) WHERE until_at IS NULL;
CREATE INDEX lawyer_shifts_until ON lawyer_shifts (until_at);

-- +goose Down
DROP TABLE lawyer_shifts;
DROP INDEX offers_period;
DROP INDEX consultations_period;
ALTER TABLE consultations DROP COLUMN estimate_sec, DROP COLUMN estimate_online, DROP COLUMN estimate_idle, DROP COLUMN estimate_ahead, DROP COLUMN estimate_told_at, DROP COLUMN first_assigned_at;
DROP TABLE estimates;
