package reseal

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
)

// value is a sealed value of a row and its replacement.
type value struct {
	ID     string
	Sealed []byte
	fresh  []byte
}

// byMaster selects what the master key sealed: a client's key uses another first byte.
func byMaster(ctx context.Context, tx postgres.Tx, c Column) *gorm.DB {
	return tx.Gorm(ctx).Table(c.Table).Where("substring("+c.Name+" from 1 for 1) = ?", seal.Part(0).Mark()[:1])
}

func count(ctx context.Context, tx postgres.Tx, c Column) ([]Use, error) {
	var marks []struct {
		Mark []byte
		Rows int64
	}
	if err := byMaster(ctx, tx, c).Select("substring(" + c.Name + " from 1 for 5) AS mark, count(*) AS rows").
		Group("mark").Order("mark").Find(&marks).Error; err != nil {
		return nil, fmt.Errorf("count what is sealed in %s: %w", c, err)
	}
	uses := make([]Use, 0, len(marks))
	for _, m := range marks {
		part, _ := seal.PartOf(m.Mark)
		uses = append(uses, Use{c, part, m.Rows})
	}
	return uses, nil
}

// find returns up to a batch of values, in row order and after a given row, that were sealed by another part than the
// given one.
func find(ctx context.Context, tx postgres.Tx, c Column, sealing seal.Part, after string) (list []value, err error) {
	err = byMaster(ctx, tx, c).Select(c.ID+" AS id, "+c.Name+" AS sealed").
		Where(c.ID+" > ? AND substring("+c.Name+" from 1 for 5) <> ?", after, sealing.Mark()).
		Order(c.ID).Limit(batch).Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("find what is sealed in %s: %w", c, err)
	}
	return list, nil
}

// replace writes the fresh values where the value is unchanged since it was read, and returns how many.
func replace(ctx context.Context, tx postgres.Tx, c Column, values []value) (n int64, err error) {
	for _, v := range values {
		done := tx.Gorm(ctx).Table(c.Table).Where(c.ID+" = ? AND "+c.Name+" = ?", v.ID, v.Sealed).
			Update(c.Name, v.fresh)
		if done.Error != nil {
			return 0, fmt.Errorf("seal %s anew: %w", c, done.Error)
		}
		n += done.RowsAffected
	}
	return n, nil
}
