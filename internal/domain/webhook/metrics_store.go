package webhook

import (
	"context"
	"fmt"

	"partnerd/internal/infra/postgres"
)

// figuresSQL visits each application with pending deliveries once. It counts up to a limit, earliest due first, by the
// indexes of ready and of held deliveries.
var figuresSQL = postgres.SQL(postgres.Report, pendingSQL+`, counted AS MATERIALIZED (
	SELECT w.application_id, coalesce(e.url IS NULL OR e.disabled_at IS NOT NULL, true) OR a.suspended_at IS NOT NULL AS held,
		p.pending, p.due, extract(epoch FROM CAST($1 AS timestamptz) - p.oldest) AS oldest
	FROM waiting w
	JOIN applications a ON a.id = w.application_id
	LEFT JOIN webhook_endpoints e ON e.application_id = w.application_id
	CROSS JOIN LATERAL (
		SELECT count(*) AS pending, count(*) FILTER (WHERE next_at <= CAST($1 AS timestamptz)) AS due,
			min(next_at) FILTER (WHERE lease_until IS NULL OR lease_until <= CAST($1 AS timestamptz)) AS oldest
		FROM ((SELECT next_at, lease_until FROM webhook_deliveries d WHERE d.application_id = w.application_id AND `+
	ready+` ORDER BY d.next_at LIMIT $2)
			UNION ALL
			(SELECT next_at, lease_until FROM webhook_deliveries d WHERE d.application_id = w.application_id AND d.held ORDER BY d.next_at LIMIT $2)
			ORDER BY next_at LIMIT $2) part) p
	WHERE w.application_id IS NOT NULL
), endpoints AS (
	SELECT count(*) FILTER (WHERE url IS NOT NULL AND disabled_at IS NULL AND failing_since IS NULL) AS healthy,
		count(*) FILTER (WHERE url IS NOT NULL AND disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
		count(*) FILTER (WHERE disabled_at IS NOT NULL) AS disabled,
		count(*) FILTER (WHERE url IS NULL AND disabled_at IS NULL) AS without_url
	FROM webhook_endpoints
)
SELECT e.*, coalesce(sum(c.due) FILTER (WHERE NOT c.held), 0) AS due,
	coalesce(sum(c.pending - c.due) FILTER (WHERE NOT c.held), 0) AS scheduled,
	coalesce(sum(c.pending) FILTER (WHERE c.held), 0) AS held,
	greatest(coalesce(max(c.oldest) FILTER (WHERE NOT c.held), 0), 0) AS oldest_due
FROM endpoints e LEFT JOIN counted c ON true
GROUP BY e.healthy, e.failing, e.disabled, e.without_url`)

var watchedSQL = postgres.SQL(postgres.Report, `
SELECT e.application_id, p.pending, coalesce(extract(epoch FROM CAST($1 AS timestamptz) - e.failing_since), 0) AS failing_for,
	e.disabled_at IS NOT NULL AS disabled
FROM webhook_endpoints e
CROSS JOIN LATERAL (SELECT count(*) AS pending FROM (SELECT 1 FROM webhook_deliveries d
	WHERE d.application_id = e.application_id AND d.state = 'PENDING' LIMIT $2) part) p
WHERE p.pending > 0 OR e.failing_since IS NOT NULL OR e.disabled_at IS NOT NULL
ORDER BY failing_for DESC, p.pending DESC, e.application_id LIMIT $3`)

func selectFigures(ctx context.Context, tx postgres.Tx) (figures, error) {
	rows, err := postgres.Query[figures](ctx, tx, figuresSQL, tx.Now, maxCounted)
	if err != nil {
		return figures{}, fmt.Errorf("read webhook figures: %w", err)
	}
	f := rows[0]
	if f.watched, err = postgres.Query[watched](ctx, tx, watchedSQL, tx.Now, maxCounted, maxWatched); err != nil {
		return figures{}, fmt.Errorf("read endpoint figures: %w", err)
	}
	return f, nil
}
