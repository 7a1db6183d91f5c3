-- +goose Up
-- Heartbeats have a narrow table of their own: a beat neither rewrites nor locks the lawyer's row, which is the mutex of
-- his work. There is a row while he is signed on. No index has heartbeat_at, so that a beat touches no index.
CREATE TABLE lawyer_presence (
    lawyer_id    text PRIMARY KEY REFERENCES lawyers,
    heartbeat_at timestamptz NOT NULL -- presence is a lease: fresh for 30 s, lost after 60 s
) WITH (fillfactor = 50);
INSERT INTO lawyer_presence SELECT id, coalesce(heartbeat_at, updated_at) FROM lawyers WHERE state <> 'OFFLINE';
ALTER TABLE lawyers DROP COLUMN heartbeat_at;

-- The queue of a pair: since when its lawyers are AVAILABLE, null for those who are not. It repeats lawyers.idle_since
-- so that a search reads the lawyers of the pair in their order and nobody else.
ALTER TABLE lawyer_pairs ADD COLUMN idle_since timestamptz;
UPDATE lawyer_pairs p SET idle_since = l.idle_since FROM lawyers l WHERE l.id = p.lawyer_id AND l.state = 'AVAILABLE';
CREATE INDEX lawyer_pairs_idle ON lawyer_pairs (competence, language, idle_since, lawyer_id) WHERE idle_since IS NOT NULL;
DROP INDEX lawyers_idle;

-- +goose Down
CREATE INDEX lawyers_idle ON lawyers (idle_since) WHERE state = 'AVAILABLE';
DROP INDEX lawyer_pairs_idle;
ALTER TABLE lawyer_pairs DROP COLUMN idle_since;
ALTER TABLE lawyers ADD COLUMN heartbeat_at timestamptz;
UPDATE lawyers l SET heartbeat_at = h.heartbeat_at FROM lawyer_presence h WHERE h.lawyer_id = l.id;
DROP TABLE lawyer_presence;
