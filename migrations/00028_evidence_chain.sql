-- +goose Up

-- Which of the published texts the partner says that the client saw; null when the request did not say.
ALTER TABLE consultation_evidence
    ADD COLUMN stated_version text,
    ADD COLUMN stated_language text CHECK (stated_language IN ('FR', 'EN'));

CREATE INDEX consultation_evidence_acknowledged ON consultation_evidence (acknowledged_at);

-- One chain over the evidence of all consultations, so that none can be changed, removed or put in between without all later
-- ones disagreeing. It is written a moment after the evidence, because creations do not wait for each other.
CREATE TABLE evidence_chain (
    seq             bigint PRIMARY KEY CHECK (seq > 0),
    consultation_id text NOT NULL UNIQUE REFERENCES consultation_evidence,
    hash            bytea NOT NULL, -- evidence_hash over the record before and this one
    chained_at      timestamptz NOT NULL
);
CREATE TRIGGER evidence_chain_append_only BEFORE UPDATE OR DELETE ON evidence_chain
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER evidence_chain_no_truncate BEFORE TRUNCATE ON evidence_chain
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- +goose StatementBegin
CREATE FUNCTION evidence_hash(previous bytea, consultation_id text, application_id text, client_id text, acknowledged_at timestamptz, text_version text,
    text_sha256 bytea, stated_version text, stated_language text, request_id text, idempotency_key_sha256 bytea, address text, user_agent text)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256($1 || convert_to(concat_ws(E'\n', $2, $3, $4, to_char($5 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), $6, encode($7, 'hex'),
        coalesce($8, ''), coalesce($9, ''), $10, encode($11, 'hex'), $12, $13), 'UTF8'))
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE evidence_chain;
DROP FUNCTION evidence_hash;
DROP INDEX consultation_evidence_acknowledged;
ALTER TABLE consultation_evidence DROP COLUMN stated_version, DROP COLUMN stated_language;
