package bench

import "context"

// present writes heartbeats and queue entries of lawyers who are not simulated.
func (r *matchRig) present(ctx context.Context) error {
	err := r.exec(ctx, `INSERT INTO lawyer_presence (lawyer_id, heartbeat_at) SELECT id, now() + interval '1 hour' FROM lawyers WHERE id LIKE 'law\_bench\_%'`)
	if err == nil {
		err = r.queue(ctx)
	}
	return err
}

// queue sets the queue entries to the state of the lawyers.
func (r *matchRig) queue(ctx context.Context) error {
	return r.exec(ctx, `UPDATE lawyer_pairs p SET idle_since = l.idle_since FROM lawyers l
		WHERE l.id = p.lawyer_id AND l.state = 'AVAILABLE' AND l.id LIKE 'law\_bench\_%' AND p.idle_since IS DISTINCT FROM l.idle_since`)
}

// reset ends offers and consultations, so that the next load starts from the same state.
func (r *matchRig) reset(ctx context.Context) {
	defer func() { _ = r.queue(ctx) }() // an error shows in the next load
	for _, sql := range []string{
		`UPDATE offers SET state = 'REVOKED', ended_at = now() WHERE state = 'OPEN'`,
		`UPDATE consultations SET status = 'CANCELLED', cancelled_at = now(), timer_at = NULL WHERE call_started_at IS NULL AND status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED')`,
		`UPDATE lawyers SET state = 'AVAILABLE', idle_since = now() WHERE id LIKE 'law\_bench\_%' AND NOT simulated AND state <> 'AVAILABLE'`,
	} {
		_ = r.exec(ctx, sql)
	}
}
