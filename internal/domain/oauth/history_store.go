package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// eventRow is a row of oauth_grant_events, which is append-only.
type eventRow struct {
	Seq           int64     `gorm:"column:seq;primaryKey"`
	GrantID       string    `gorm:"column:grant_id"`
	ApplicationID string    `gorm:"column:application_id"`
	ClientID      string    `gorm:"column:client_id"`
	Event         string    `gorm:"column:event"`
	Reason        Reason    `gorm:"column:reason"`
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (eventRow) TableName() string { return "oauth_grant_events" }

// recordEvents ends every statement that changes grants, so that a change and its events are atomic. It follows "WITH
// changed AS (" and the change. $1 is the time, $2 the reason, $3 the events.
const recordEvents = ` RETURNING id, application_id, client_id)
	INSERT INTO oauth_grant_events (grant_id, application_id, client_id, event, reason, created_at)
	SELECT id, application_id, client_id, event, $2, $1 FROM changed, unnest($3::text[]) event`

// changeGrants runs a statement that ends with recordEvents and returns how many events it recorded. The first of args
// is $4.
func changeGrants(ctx context.Context, tx postgres.Tx, s postgres.Statement, reason Reason, events []string,
	args ...any,
) (int, error) {
	return tx.Exec(ctx, s, append([]any{tx.Now, reason, events}, args...)...)
}

func events(ctx context.Context, tx postgres.Tx, clientID, applicationID string, limit int) ([]eventRow, error) {
	list, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("client_id = ? AND application_id = ?", clientID, applicationID).
		Order("seq DESC").Limit(limit).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return list, nil
}

// admitPurgeSQL is the only way past the trigger that protects oauth_grant_events.
var admitPurgeSQL = postgres.SQL(postgres.Backend, `SELECT set_config('partnerd.purge', 'on', true)`)

// deleteEvents deletes up to limit events of a kind before a time, oldest first, and returns how many. It cannot use
// [postgres.Purge], which locks rows: the program has no privilege to lock events, because no one may change them.
func deleteEvents(ctx context.Context, tx postgres.Tx, event string, before time.Time, limit int) (int, error) {
	if _, err := tx.Exec(ctx, admitPurgeSQL); err != nil {
		return 0, fmt.Errorf("delete history: %w", err)
	}
	past := tx.Gorm(ctx).Model(&eventRow{}).Select("seq").Where("event = ? AND created_at < ?", event, before).
		Order("created_at").Limit(limit)
	n, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("seq = ANY(ARRAY(?))", past).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete history: %w", err)
	}
	return n, nil
}
