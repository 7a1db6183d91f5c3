package portal

import (
	"context"
	"slices"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// Told is a change made by our operators; What selects the text "portal.told.WHAT".
type Told struct {
	What string
	Args []any
}

// Tell emails the owners of an application, and contacts, what our operators changed.
func (s *Service) Tell(ctx context.Context, tx postgres.Tx, a application.Application, contacts []string,
	all ...Told,
) error {
	readers, err := s.readersOf(ctx, tx, a, contacts...)
	if err != nil {
		return err
	}
	for _, r := range readers {
		events := make([]string, len(all))
		for i, t := range all {
			if events[i], err = s.texts.Get(r.language, "portal.told."+t.What,
				s.translateRoles(r.language, t.Args)...); err != nil {
				return err
			}
		}
		err := s.send(ctx, tx, r.email, r.language, "portal.told", r.nameOf(a), tx.Now.Format(noticeTime),
			strings.Join(events, "\n"), s.page(a))
		if err != nil {
			return err
		}
	}
	return nil
}

// reader is the recipient of an email. A stranger is a contact who has not proven their address. Anyone may have named
// them, so their emails contain no text written by the application's people.
type reader struct {
	email, language, name string
	stranger              bool
}

// contactLanguage is the language of emails to a stranger, whose language is unknown.
const contactLanguage = "en"

// nameOf returns the name by which an email refers to an application.
func (r reader) nameOf(a application.Application) string {
	if r.stranger {
		return a.ID
	}
	return text.Mailed(a.Name, a.ID)
}

// readersOf returns the owners of an application and the contacts, each address once.
func (s *Service) readersOf(ctx context.Context, tx postgres.Tx, a application.Application,
	contacts ...string,
) (list []reader, err error) {
	rows, err := membersOf(ctx, tx, a.ID)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		p, err := s.deps.Staff.Get(ctx, tx, r.StaffID)
		if err != nil {
			return nil, err
		}
		if r.Role == Owner || slices.ContainsFunc(contacts,
			func(c string) bool { return strings.EqualFold(c, p.Email) }) {
			list = append(list, reader{email: p.Email, language: p.Language, name: p.Name})
		}
	}
	for _, contact := range contacts {
		if contact != "" && !slices.ContainsFunc(list,
			func(r reader) bool { return strings.EqualFold(r.email, contact) }) {
			list = append(list, reader{email: contact, language: contactLanguage, stranger: true})
		}
	}
	return list, nil
}

// tell emails the owners of an application and its contact what was changed, and by whom.
func (s *Service) tell(ctx context.Context, tx postgres.Tx, by Caller, a application.Application, what string,
	args ...any,
) error {
	readers, err := s.readersOf(ctx, tx, a, a.ContactEmail)
	if err != nil {
		return err
	}
	return s.tellEach(ctx, tx, by, a, readers, what, args...)
}

// tellPeople emails the owners of an application, and the member with the address concerned, what changed about its
// people.
func (s *Service) tellPeople(ctx context.Context, tx postgres.Tx, by Caller, a application.Application,
	concerned string, what string, args ...any,
) error {
	readers, err := s.readersOf(ctx, tx, a, concerned)
	if err != nil {
		return err
	}
	return s.tellEach(ctx, tx, by, a, readers, what, args...)
}

func (s *Service) tellEach(ctx context.Context, tx postgres.Tx, by Caller, a application.Application, readers []reader,
	what string, args ...any,
) error {
	for _, r := range readers {
		var err error
		if r.stranger {
			err = s.tellStranger(ctx, tx, a, r, what)
		} else {
			err = s.tellOne(ctx, tx, by, a, r, what, args)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) tellOne(ctx context.Context, tx postgres.Tx, by Caller, a application.Application, to reader,
	what string, args []any,
) error {
	event, err := s.texts.Get(to.language, "portal.notice."+what, s.translateRoles(to.language, args)...)
	if err != nil {
		return err
	}
	from, err := s.madeBy(ctx, tx, by, to.language)
	if err != nil {
		return err
	}
	return s.send(ctx, tx, to.email, to.language, "portal.notice", to.name, to.nameOf(a), event,
		tx.Now.Format(noticeTime), from, s.page(a))
}

// tellStranger is [Service.tellOne] in fixed texts.
func (s *Service) tellStranger(ctx context.Context, tx postgres.Tx, a application.Application, to reader,
	what string,
) error {
	if written, err := mayWrite(ctx, tx, to.email); err != nil || !written {
		return err
	}
	event, err := s.texts.Get(to.language, "portal.contact."+what)
	if err != nil {
		return err
	}
	return s.send(ctx, tx, to.email, to.language, "portal.contact", to.nameOf(a), event, tx.Now.Format(noticeTime),
		s.page(a))
}

// mayWrite counts an email to a stranger and reports whether it is within the limit. The limit is shared by all
// applications. Emails to owners are not affected.
func mayWrite(ctx context.Context, tx postgres.Tx, email string) (bool, error) {
	d, err := ratelimit.Take(ctx, tx, "portal contact "+id.DigestOf(strings.ToLower(email)).String(), contactMailQuota)
	return d.Allowed, err
}

// Contact returns the name by which an email to the contact refers to the application, and whether the contact gets one
// now.
func (s *Service) Contact(ctx context.Context, tx postgres.Tx,
	a application.Application,
) (called string, written bool, err error) {
	readers, err := s.readersOf(ctx, tx, a, a.ContactEmail)
	at := slices.IndexFunc(readers, func(r reader) bool { return strings.EqualFold(r.email, a.ContactEmail) })
	if err != nil || at < 0 {
		return "", false, err
	}
	called = readers[at].nameOf(a)
	if !readers[at].stranger {
		return called, true, nil
	}
	written, err = mayWrite(ctx, tx, a.ContactEmail)
	return called, written, err
}

func (s *Service) page(a application.Application) string {
	return s.deps.BaseURL + "/developers/apps/" + a.ID
}
