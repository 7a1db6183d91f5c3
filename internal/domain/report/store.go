package report

import (
	"context"
	"database/sql"
	"fmt"

	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// calibrateSQL compares estimates and waits of consultations created from $1 to $2: in total, by pair and by hour of
// day.
var calibrateSQL = postgres.SQL(postgres.Report, `WITH told AS (
		SELECT competence, language, extract(hour FROM created_at AT TIME ZONE 'UTC')::int AS hour, status, estimate_sec::float8 AS e,
			extract(epoch FROM coalesce(first_assigned_at, assigned_at) - created_at)::float8 AS w
		FROM consultations WHERE created_at >= $1 AND created_at < $2 AND estimate_told_at IS NOT NULL
	)
	SELECT coalesce(competence, ''), coalesce(language, ''), coalesce(hour, -1), count(*), count(*) FILTER (WHERE e IS NULL),
		count(*) FILTER (WHERE e IS NOT NULL AND w IS NULL AND status NOT IN ('CANCELLED', 'EXPIRED')),
		count(*) FILTER (WHERE e IS NOT NULL AND w IS NULL AND status IN ('CANCELLED', 'EXPIRED')),
		count(*) FILTER (WHERE e IS NOT NULL AND w IS NOT NULL),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY e / greatest(w, 1)) FILTER (WHERE w IS NOT NULL), count(*) FILTER (WHERE w <= e),
		count(*) FILTER (WHERE e IS NOT NULL AND w > 60), count(*) FILTER (WHERE w > 60 AND e BETWEEN w / 2 AND w * 2)
	FROM told GROUP BY GROUPING SETS ((), (competence, language), (hour)) ORDER BY 1, 2, 3`)

func calibrate(ctx context.Context, tx postgres.Tx, p Period) (c Calibration, err error) {
	err = tx.Rows(ctx, calibrateSQL, func(rows *sql.Rows) error {
		var pair matching.Pair
		var hour int
		var e Estimates
		if err := rows.Scan(&pair.Competence, &pair.Language, &hour, &e.Told, &e.Unknown, &e.Open, &e.Unserved,
			&e.Served, &e.MedianRatio, &e.NotLonger, &e.Long, &e.Within); err != nil {
			return err
		}
		switch {
		case hour >= 0:
			c.ByHour = append(c.ByHour, HourEstimates{hour, e})
		case pair.Competence != "":
			c.ByPair = append(c.ByPair, PairEstimates{pair, e})
		default:
			c.All = e
		}
		return nil
	}, p.From, p.Until)
	if err != nil {
		return Calibration{}, fmt.Errorf("compare estimates with waits: %w", err)
	}
	return c, nil
}

// freeSQL holds the lawyers on duty from $1 to $2, with their times on duty and idle as multiranges. It looks for
// offers from one day earlier on, because a consultation accepted before $1 may still have been in hand.
const freeSQL = `free AS (
		SELECT duty.lawyer_id, duty.times AS duty, duty.times - coalesce(taken.times, '{}') AS idle FROM (
			SELECT lawyer_id, range_agg(tstzrange(greatest(from_at, $1), least(coalesce(until_at, $2), $2))) AS times
			FROM lawyer_shifts WHERE from_at < $2 AND (until_at IS NULL OR until_at > $1) GROUP BY lawyer_id
		) duty LEFT JOIN (
			SELECT o.lawyer_id, range_agg(tstzrange(o.created_at, greatest(o.created_at, CASE WHEN o.state <> 'ACCEPTED' THEN coalesce(o.ended_at, $2)
				ELSE least(coalesce(o.returned_at, c.completed_at, c.expired_at, c.cancelled_at, $2), c.call_ended_at + interval '1 day') END))) AS times
			FROM offers o JOIN consultations c ON c.id = o.consultation_id
			WHERE o.created_at >= $1::timestamptz - interval '1 day' AND o.created_at < $2 GROUP BY o.lawyer_id
		) taken ON taken.lawyer_id = duty.lawyer_id
	)`

// lengthOf returns an SQL expression for the number of seconds that a multirange covers.
func lengthOf(times string) string {
	return "(SELECT coalesce(sum(extract(epoch FROM upper(r) - lower(r))), 0)::float8 FROM unnest(" + times + ") r)"
}

// presenceSQL merges the times of all lawyers of a pair.
var presenceSQL = postgres.SQL(postgres.Report, "WITH "+freeSQL+`, by_pair AS (
		SELECT p.competence, p.language,
			(SELECT range_agg(r) FROM free f JOIN lawyer_pairs q ON q.lawyer_id = f.lawyer_id CROSS JOIN LATERAL unnest(f.duty) r
				WHERE q.competence = p.competence AND q.language = p.language) AS duty,
			(SELECT range_agg(r) FROM free f JOIN lawyer_pairs q ON q.lawyer_id = f.lawyer_id CROSS JOIN LATERAL unnest(f.idle) r
				WHERE q.competence = p.competence AND q.language = p.language) AS idle
		FROM (SELECT DISTINCT competence, language FROM lawyer_pairs) p
	) SELECT competence, language, `+lengthOf("duty")+" AS on_duty, "+lengthOf("idle")+" AS idle FROM by_pair")

// presenceRow holds how many seconds at least one lawyer of a pair was on duty, and idle.
type presenceRow struct {
	matching.Pair `gorm:"embedded"`
	OnDuty, Idle  float64
}

func presence(ctx context.Context, tx postgres.Tx, p Period) ([]presenceRow, error) {
	list, err := postgres.Query[presenceRow](ctx, tx, presenceSQL, p.From, p.Until)
	if err != nil {
		return nil, fmt.Errorf("read when lawyers were there: %w", err)
	}
	return list, nil
}

var consultationsSQL = postgres.SQL(postgres.Report, `SELECT competence, language, count(*) AS asked,
		count(*) FILTER (WHERE call_started_at <= created_at + interval '30 minutes') AS within30m,
		count(*) FILTER (WHERE call_started_at <= created_at + interval '24 hours') AS within24h, count(call_started_at) AS served,
		count(*) FILTER (WHERE call_started_at IS NULL AND status IN ('CANCELLED', 'EXPIRED')) AS unserved
	FROM consultations WHERE created_at >= $1 AND created_at < $2 GROUP BY competence, language`)

type asked struct {
	matching.Pair `gorm:"embedded"`
	Consultations `gorm:"embedded"`
}

func consultations(ctx context.Context, tx postgres.Tx, p Period) ([]asked, error) {
	list, err := postgres.Query[asked](ctx, tx, consultationsSQL, p.From, p.Until)
	if err != nil {
		return nil, fmt.Errorf("count who was served: %w", err)
	}
	return list, nil
}

// sharesSQL counts the calls that started on a day. It includes consultations created up to two days before, because a
// callback may be that late.
var sharesSQL = postgres.SQL(postgres.Report, "WITH "+freeSQL+`, had AS (
		SELECT lawyer_id, competence, language, count(*) AS calls FROM consultations
		WHERE created_at >= $1::timestamptz - interval '2 days' AND created_at < $2 AND call_started_at >= $1 AND call_started_at < $2 GROUP BY lawyer_id, competence, language
	), one AS (
		SELECT lawyer_id, `+lengthOf("duty")+" AS on_duty, "+lengthOf("idle")+
	` AS idle, (SELECT count(*) FROM lawyer_pairs q WHERE q.lawyer_id = free.lawyer_id) = 1 AS alone FROM free
	)
	SELECT p.competence, p.language, one.lawyer_id, coalesce(had.calls, 0) AS calls, one.alone, one.on_duty, one.idle
	FROM one JOIN lawyer_pairs p ON p.lawyer_id = one.lawyer_id
	LEFT JOIN had ON had.lawyer_id = one.lawyer_id AND had.competence = p.competence AND had.language = p.language`)

// share is a lawyer's share of a pair, with times in seconds.
type share struct {
	matching.Pair `gorm:"embedded"`
	LawyerID      string
	Calls         int
	Alone         bool
	OnDuty, Idle  float64
}

func sharesOf(ctx context.Context, tx postgres.Tx, p Period) ([]share, error) {
	list, err := postgres.Query[share](ctx, tx, sharesSQL, p.From, p.Until)
	if err != nil {
		return nil, fmt.Errorf("read who had which calls: %w", err)
	}
	return list, nil
}
