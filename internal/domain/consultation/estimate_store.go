package consultation

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// estimateRow is a row of estimates: the last estimate of the wait that a partner was given, by client and pair.
type estimateRow struct {
	ApplicationID string    `gorm:"column:application_id;primaryKey"`
	ClientID      string    `gorm:"column:client_id;primaryKey"`
	Competence    string    `gorm:"column:competence;primaryKey"`
	Language      string    `gorm:"column:language;primaryKey"`
	Seconds       *int      `gorm:"column:seconds"` // NULL if the answer was "not known"
	LawyersOnline int       `gorm:"column:lawyers_online"`
	LawyersIdle   int       `gorm:"column:lawyers_idle"`
	Ahead         int       `gorm:"column:ahead"` // consultations that waited for a lawyer of the pair
	ToldAt        time.Time `gorm:"column:told_at"`
}

// TableName implements [schema.Tabler].
func (estimateRow) TableName() string { return "estimates" }

func keepEstimate(ctx context.Context, tx postgres.Tx, applicationID, clientID string, p matching.Pair,
	c matching.Coverage,
) error {
	r := estimateRow{applicationID, clientID, p.Competence, p.Language, c.EstimatedWaitSeconds, c.LawyersOnline,
		c.LawyersIdle, c.Ahead, tx.Now}
	if err := gorm.G[estimateRow](tx.Gorm(ctx), clause.OnConflict{UpdateAll: true}).Create(ctx, &r); err != nil {
		return fmt.Errorf("keep what was told about the wait: %w", err)
	}
	return nil
}

func eraseEstimates(ctx context.Context, tx postgres.Tx, clientID string) error {
	if _, err := gorm.G[estimateRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx); err != nil {
		return fmt.Errorf("delete what was told about waits: %w", err)
	}
	return nil
}

func purgeEstimates(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	n, err := postgres.Purge[estimateRow](ctx, tx, limit, "told_at", "told_at <= ?", before)
	if err != nil {
		return 0, fmt.Errorf("purge what was told about waits: %w", err)
	}
	return n, nil
}

// waitsSQL reads the data for an estimate for the pair $1, $2 at time $3: consultations assigned since $4, and
// consultations waiting for the crew $10. If the pair has too little data, it uses the competence in all languages.
//
// A consultation that was offered within a few seconds arrived while a lawyer was idle. Assignments after $5 do not
// count towards the time that an assignment takes: only the short ones have ended, which would bias the estimate.
var waitsSQL = postgres.SQL(postgres.Report, func() string {
	const own, all = "FROM (SELECT $2::text AS code)", "FROM languages"
	sample := func(languages, columns, where string) string {
		return languages + ` l CROSS JOIN LATERAL (SELECT ` + columns + ` FROM consultations c
			WHERE c.competence = $1 AND c.language = l.code AND ` + where + ` ORDER BY c.assigned_at DESC LIMIT 100) c`
	}
	accept := func(languages string) string {
		return `(SELECT CASE WHEN count(*) >= $6 THEN percentile_cont($7) WITHIN GROUP (ORDER BY c.wait) END ` +
			sample(languages, "c.id, c.search_started_at, extract(epoch FROM coalesce(c.first_assigned_at, c.assigned_at) - c.search_started_at)::float8 AS wait", "c.assigned_at > $4") + `
		WHERE (SELECT true FROM offers o WHERE o.consultation_id = c.id AND o.created_at < c.search_started_at + interval '3 seconds' LIMIT 1))` // one lookup per row
	}
	engaged := func(languages string) string {
		return `(SELECT CASE WHEN count(*) >= $6 THEN avg(least(c.taken, $8)) END ` +
			sample(languages, "extract(epoch FROM c.completed_at - c.assigned_at)::float8 AS taken",
				"c.assigned_at > $4 AND c.assigned_at < $5 AND c.completed_at IS NOT NULL") + `)`
	}
	return "SELECT coalesce(" + accept(own) + ", " + accept(all) + "), coalesce(" + engaged(own) + ", " + engaged(all) +
		`), coalesce((
			SELECT extract(epoch FROM coalesce(c.first_assigned_at, c.assigned_at) - c.search_started_at) FROM consultations c
			WHERE c.competence = $1 AND c.language = $2 AND c.assigned_at > $9 AND c.callback_due_at IS NULL ORDER BY c.assigned_at DESC LIMIT 1), 0)::float8,
		waiting.* FROM (
		SELECT count(*), coalesce(extract(epoch FROM $3::timestamptz - min(c.search_started_at) FILTER (WHERE c.status = 'MATCHING')), 0)::float8
		FROM consultations c WHERE c.competence = $1 AND c.language = $2 AND c.status IN ('MATCHING', 'PENDING_CALLBACK')
			AND (c.status = 'MATCHING' OR c.callable_from <= $3 AND c.callable_until > $3) AND c.crew IS NOT DISTINCT FROM nullif($10, '')) waiting`
}())

// The window of past data.
const (
	lookBack         = 7 * 24 * time.Hour
	minSample        = 10               // consultations, of the newest 100 of each pair
	maxTaken         = 2 * CallLimit    // a later note did not keep its lawyer from work
	minAssignedAge   = maxTaken         // youngest assignment of which the time taken counts
	lastWaitWindow   = 30 * time.Minute // age limit of the last wait that ended
	estimateValidity = 10 * time.Minute // a consultation that begins later does not use it
)

func waits(ctx context.Context, tx postgres.Tx, p matching.Pair, crew matching.Crew) (matching.Waits, error) {
	var accept, engaged *float64 // seconds
	var last, oldest float64
	var w matching.Waits
	err := tx.QueryRow(ctx, waitsSQL, p.Competence, p.Language, tx.Now, tx.Now.Add(-lookBack),
		tx.Now.Add(-minAssignedAge), minSample, matching.AcceptQuantile, maxTaken.Seconds(),
		tx.Now.Add(-lastWaitWindow), crew).Scan(&accept, &engaged, &last, &w.Ahead, &oldest)
	if err != nil {
		return matching.Waits{}, fmt.Errorf("read waits: %w", err)
	}
	w.Accept, w.Engaged = duration(accept), duration(engaged)
	w.Last, w.Oldest = *duration(&last), *duration(&oldest)
	return w, nil
}

func duration(sec *float64) *time.Duration {
	if sec == nil {
		return nil
	}
	d := time.Duration(*sec * float64(time.Second))
	return &d
}
