package twilio

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// leg is a row of twilio_legs: the known facts of one dialled side.
type leg struct {
	CommandID string         `gorm:"column:command_id;primaryKey"` // the command that placed it
	CallID    string         `gorm:"column:call_id;<-:create"`
	Role      telephony.Role `gorm:"column:role;<-:create"`
	// of the call resource; empty while a response is outstanding or was lost
	SID      string     `gorm:"column:sid;serializer:zeronull"`
	PlacedAt time.Time  `gorm:"column:placed_at;<-:create"`
	TriedAt  *time.Time `gorm:"column:tried_at"` // since when it may have been dialled
	HangUp   bool       `gorm:"column:hang_up"`  // it is to be ended
	// the prompt to play; without one, a lawyer's leg was admitted on answer
	Prompt      string     `gorm:"column:prompt;serializer:zeronull"`
	Language    string     `gorm:"column:language;serializer:zeronull"`
	Application string     `gorm:"column:application;serializer:zeronull"` // named by the prompt
	RangAt      *time.Time `gorm:"column:rang_at"`
	AnsweredAt  *time.Time `gorm:"column:answered_at"`
	MachineAt   *time.Time `gorm:"column:machine_at"`
	PressedAt   *time.Time `gorm:"column:pressed_at"` // also set after a timeout without a key
	Pressed     string     `gorm:"column:pressed;serializer:zeronull"`
	BridgedAt   *time.Time `gorm:"column:bridged_at"`                    // sent into the conference
	LimitSec    int        `gorm:"column:limit_sec;serializer:zeronull"` // time limit there
	JoinedAt    *time.Time `gorm:"column:joined_at"`                     // entered the conference
	EndedAt     *time.Time `gorm:"column:ended_at"`
	Status      string     `gorm:"column:status;serializer:zeronull"` // how it ended
}

// TableName implements [schema.Tabler].
func (leg) TableName() string { return "twilio_legs" }

// begin stores a leg before it is first dialled, and returns its known facts.
func begin(ctx context.Context, tx postgres.Tx, cmd telephony.PlaceLeg) (leg, error) {
	l := leg{CommandID: cmd.CommandID, CallID: cmd.CallID, Role: cmd.Role, PlacedAt: tx.Now}
	if l.Role == telephony.Lawyer {
		l.Prompt = telephony.PromptLawyer
	}
	if err := gorm.G[leg](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}).Create(ctx, &l); err != nil {
		return leg{}, fmt.Errorf("insert leg: %w", err)
	}
	l, err := gorm.G[leg](tx.Gorm(ctx), postgres.ForUpdate).Where("command_id = ?", cmd.CommandID).Take(ctx)
	if err != nil {
		return leg{}, fmt.Errorf("read leg: %w", err)
	}
	return l, nil
}

// legsOf returns the legs of a call in the order in which they were placed.
func legsOf(ctx context.Context, tx postgres.Tx, callID string) ([]leg, error) {
	legs, err := gorm.G[leg](tx.Gorm(ctx)).Where("call_id = ?", callID).Order("placed_at, command_id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read legs: %w", err)
	}
	return legs, nil
}

// lockLegs is [legsOf] with a lock that serialises changes of the call's legs.
func lockLegs(ctx context.Context, tx postgres.Tx, callID string) ([]leg, error) {
	if err := tx.Lock(ctx, "legs "+callID); err != nil {
		return nil, err
	}
	return legsOf(ctx, tx, callID)
}

// callOf returns the call of a leg, or "" if the leg does not exist.
func callOf(ctx context.Context, tx postgres.Tx, commandID string) (string, error) {
	l, err := gorm.G[leg](tx.Gorm(ctx)).Select("call_id").Where("command_id = ?", commandID).Take(ctx)
	if postgres.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for leg: %w", err)
	}
	return l.CallID, nil
}

var changing = postgres.Updatable[leg]()

func save(ctx context.Context, tx postgres.Tx, l leg) error {
	if err := tx.Gorm(ctx).Model(&leg{}).Where("command_id = ?", l.CommandID).Select(changing).
		Updates(l).Error; err != nil {
		return fmt.Errorf("update leg: %w", err)
	}
	return nil
}

// known returns which of the provider's calls already belong to a leg.
func known(ctx context.Context, tx postgres.Tx, sids []string) (map[string]bool, error) {
	legs, err := gorm.G[leg](tx.Gorm(ctx)).Select("sid").Where("sid IN ?", sids).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for known calls: %w", err)
	}
	found := make(map[string]bool, len(legs))
	for _, l := range legs {
		found[l.SID] = true
	}
	return found, nil
}
