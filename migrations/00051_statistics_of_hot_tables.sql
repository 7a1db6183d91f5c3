-- +goose Up
-- Tables that grow from nothing to millions of rows, and those of which few rows at a time wait. The server looks at what was
-- written every minute at the most; by its defaults it then waits for a tenth of the table (statistics) or a fifth (dead rows, which
-- the indexes of what waits are full of). None of these settings keeps a reader or a writer waiting.
ALTER TABLE consultations SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE webhook_events SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE webhook_deliveries SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE webhook_attempts SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE offers SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE calls SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE holds SET (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE ledger_transactions SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE postings SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE wallets SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE api_requests SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);

-- +goose Down
ALTER TABLE api_requests RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE wallets RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor);
ALTER TABLE postings RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE ledger_transactions RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE holds RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor);
ALTER TABLE calls RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor);
ALTER TABLE offers RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor);
ALTER TABLE webhook_attempts RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE webhook_deliveries RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE webhook_events RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);
ALTER TABLE consultations RESET (autovacuum_analyze_scale_factor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor);
