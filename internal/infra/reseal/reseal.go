package reseal

import (
	"context"
	"fmt"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
)

// Column is a column that the master key seals.
type Column struct {
	Table string // with its schema, unless that is public
	ID    string // primary key column, a text
	Name  string
	// Place returns the place for which the value of a row is sealed. If Place is nil, the values expire within a day
	// and are only counted.
	Place func(id string) string
	// Older says that only an older release sealed values here with the master key, so there may be many rows and few
	// values.
	Older bool
}

func (c Column) String() string { return c.Table + "." + c.Name }

// Use is the number of values in a column that a part of the master key sealed.
type Use struct {
	Column Column
	Part   seal.Part
	Rows   int64
}

const batch = 500

// Passes over a column: the next pass finds a value that another process has moved to another column in the meantime.
const maxPasses = 3

// Uses counts the values of the columns by the part of the master key that sealed them. It reads each table completely.
func Uses(ctx context.Context, tx postgres.Tx, columns []Column) (all []Use, err error) {
	for _, c := range columns {
		uses, err := count(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, uses...)
	}
	return all, nil
}

// MissingError names a column with values of a part that the key lacks.
type MissingError struct {
	Column Column
	Part   seal.Part
	Rows   int64
}

func (e MissingError) Error() string {
	return fmt.Sprintf("the master key lacks its part %s, which %d values of %s are sealed with: give the key that "+
		"has it, and see partnerd key reseal", e.Part, e.Rows, e.Column)
}

// Check returns a [MissingError] if values are sealed by a part that the key lacks. It runs at every start of a
// process. It therefore skips columns sealed only by older releases, and those whose values expire: these may have
// millions of rows.
func Check(ctx context.Context, tx postgres.Tx, box *seal.Box, columns []Column) error {
	for _, c := range columns {
		if c.Older || c.Place == nil {
			continue
		}
		uses, err := count(ctx, tx, c)
		if err != nil {
			return err
		}
		for _, u := range uses {
			if !box.Has(u.Part) {
				return MissingError(u)
			}
		}
	}
	return nil
}

// Progress is the progress made with a column.
type Progress struct {
	Column   Column
	Resealed int64
	Unopened int64 // values that no part of the key opens
}

// Run reseals, with the sealing part, what other parts sealed. It calls report after each batch, and may be interrupted
// at any time.
func Run(ctx context.Context, db *postgres.DB, box *seal.Box, columns []Column,
	report func(Progress),
) (all []Progress, err error) {
	for _, c := range columns {
		p := Progress{Column: c}
		for pass := 0; c.Place != nil && pass < maxPasses; pass++ {
			before := p.Resealed
			p.Unopened = 0
			if err := p.run(ctx, db, box, report); err != nil {
				return all, err
			}
			if p.Resealed == before {
				break
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *Progress) run(ctx context.Context, db *postgres.DB, box *seal.Box, report func(Progress)) error {
	for after := ""; ; {
		old, err := find(ctx, db.Read(), p.Column, box.Sealing(), after)
		if err != nil || len(old) == 0 {
			return err
		}
		after = old[len(old)-1].ID
		var fresh []value
		unopened := int64(0)
		for _, v := range old {
			plain, err := box.Open(p.Column.Place(v.ID), v.Sealed)
			if err != nil {
				unopened++
				continue
			}
			sealed, err := box.Seal(p.Column.Place(v.ID), plain)
			if err != nil {
				return err
			}
			fresh = append(fresh, value{ID: v.ID, Sealed: v.Sealed, fresh: sealed})
		}
		var done int64
		err = db.InTx(ctx, func(tx postgres.Tx) (err error) {
			done, err = replace(ctx, tx, p.Column, fresh)
			return err
		})
		if err != nil {
			return err
		}
		p.Resealed += done
		p.Unopened += unopened
		report(*p)
	}
}
