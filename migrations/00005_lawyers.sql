-- +goose Up
CREATE TABLE lawyers (
    id            text PRIMARY KEY,
    email         text NOT NULL,
    name          text NOT NULL,
    password_hash text NOT NULL,
    phone_sealed  bytea,
    state         text NOT NULL CHECK (state IN ('OFFLINE', 'AVAILABLE', 'OFFERED', 'BUSY', 'WRAP_UP', 'AWAY')),
    idle_since    timestamptz, -- since when AVAILABLE; the longest idle is offered work first
    heartbeat_at  timestamptz, -- presence is a lease: fresh for 30 s
    lease_epoch   bigint NOT NULL DEFAULT 0, -- writes of an older connection are refused
    simulated     boolean NOT NULL DEFAULT false,
    suspended_at  timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    CONSTRAINT lawyers_idle CHECK (state <> 'AVAILABLE' OR idle_since IS NOT NULL)
);
CREATE UNIQUE INDEX lawyers_email_key ON lawyers (lower(email));
CREATE INDEX lawyers_idle ON lawyers (idle_since) WHERE state = 'AVAILABLE';

-- A pair is a competence in a language: what a lawyer can serve, and what a consultation asks for.
CREATE TABLE lawyer_pairs (
    competence text NOT NULL REFERENCES competences,
    language   text NOT NULL REFERENCES languages,
    lawyer_id  text NOT NULL REFERENCES lawyers,
    PRIMARY KEY (competence, language, lawyer_id)
);
CREATE INDEX lawyer_pairs_lawyer ON lawyer_pairs (lawyer_id);

-- +goose Down
DROP TABLE lawyer_pairs;
DROP TABLE lawyers;
