package portal

import (
	"context"
	"slices"
	"strings"

	"partnerd/internal/application"
	"partnerd/internal/postgres"
	"partnerd/internal/text"
)

// Told is what our operators have changed, in the words of "portal.told.WHAT".
type Told struct {
	What string
	Args []any
}

// Tell writes to the owners of an application, and to contacts, what our operators have changed.
func (s *Service) Tell(ctx context.Context, tx postgres.Tx, a application.Application, contacts []string, all ...Told) error {
	var readers []reader
	members, _, err := s.PeopleOf(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Role != Owner {
			continue
		}
		p, err := s.deps.Staff.Get(ctx, tx, m.StaffID)
		if err != nil {
			return err
		}
		readers = append(readers, reader{p.Email, p.Language, p.Name})
	}
	for _, contact := range contacts {
		known := func(r reader) bool { return strings.EqualFold(r.email, contact) }
		if contact != "" && !slices.ContainsFunc(readers, known) {
			readers = append(readers, reader{email: contact, language: contactLanguage}) // whose language nobody knows
		}
	}
	for _, r := range readers {
		events := make([]string, len(all))
		for i, t := range all {
			if events[i], err = s.texts.Get(r.language, "portal.told."+t.What, s.worded(r.language, t.Args)...); err != nil {
				return err
			}
		}
		err := s.send(ctx, tx, r.email, r.language, "portal.told", text.Mailed(a.Name, a.ID), tx.Now.Format(noticeTime), strings.Join(events, "\n"),
			s.deps.BaseURL+"/developers/apps/"+a.ID)
		if err != nil {
			return err
		}
	}
	return nil
}
