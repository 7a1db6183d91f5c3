package consultation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/infra/postgres"
)

// Get returns a consultation that the application started for the client. Problem: NOT_FOUND, both for a consultation
// that does not exist and for one that belongs to another client or application (T7).
func (s *Service) Get(ctx context.Context, tx postgres.Tx,
	applicationID, clientID, consultationID string,
) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	r, err := get(ctx, tx, applicationID, clientID, consultationID)
	if err != nil {
		return Consultation{}, err
	}
	return s.open(r)
}

// ListFilter selects consultations of an application and a client. Zero fields select all.
type ListFilter struct {
	Status        Status
	ExternalRef   string    // exact match
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
}

// List returns at most limit consultations that the application started for the client, newest first. It begins after
// the position before (zero for the newest); more reports whether others follow.
func (s *Service) List(ctx context.Context, tx postgres.Tx, applicationID, clientID string, f ListFilter,
	before Position, limit int,
) (items []Consultation, more bool, err error) {
	rows, err := list(ctx, tx, applicationID, clientID, f, before, limit+1)
	if err != nil {
		return nil, false, err
	}
	return s.openPage(rows, limit)
}

// openPage opens the first limit rows; more reports whether there are others.
func (s *Service) openPage(rows []openRow, limit int) (items []Consultation, more bool, err error) {
	if more = len(rows) > limit; more {
		rows = rows[:limit]
	}
	items = make([]Consultation, len(rows))
	for i, r := range rows {
		if items[i], err = s.open(r); err != nil {
			return nil, false, err
		}
	}
	return items, more, nil
}

// Note returns the preview of the lawyer's note (specification section 2.8). Problems: NOT_FOUND, NOTE_NOT_AVAILABLE.
func (s *Service) Note(ctx context.Context, tx postgres.Tx,
	applicationID, clientID, consultationID string,
) (note.Preview, error) {
	if !storable(consultationID) {
		return note.Preview{}, problem.ErrNotFound
	}
	r, err := get(ctx, tx, applicationID, clientID, consultationID)
	if err != nil {
		return note.Preview{}, err
	}
	if c := fromRow(r.Row); !c.NoteAvailable() || c.ErasedAt != nil {
		return note.Preview{}, ErrNoteNotAvailable
	}
	p, ok, err := s.deps.Notes.Preview(ctx, tx, consultationID)
	if err == nil && !ok {
		err = fmt.Errorf("completed consultation %s has no note", consultationID)
	}
	return p, err
}

// Served reports whether consultations are accepted, that is, whether calls can be made.
func (s *Service) Served() bool { return s.deps.Telephony.Available() }

// Coverage returns whether lawyers can be reached now for a competence and language, and the expected wait
// (specification section 2.6, decisions H34 to H36). In a sandbox the answer depends on the application. If no call can
// be made, nothing is available.
func (s *Service) Coverage(ctx context.Context, tx postgres.Tx,
	applicationID, competence, language string,
) (matching.Coverage, error) {
	pair := matching.Pair{Competence: competence, Language: language}
	crew, err := s.crew(ctx, tx, applicationID)
	if err != nil {
		return matching.Coverage{}, err
	}
	w, err := waits(ctx, tx, pair, crew)
	if err != nil {
		return matching.Coverage{}, err
	}
	c, err := s.deps.Matching.Coverage(ctx, tx, pair, crew, w)
	if !s.deps.Telephony.Available() {
		c.Available, c.EstimatedWaitSeconds = false, nil
	}
	return c, err
}

// TellCoverage is [Service.Coverage] for a partner who asks on behalf of a client. A consultation that begins within
// the next ten minutes stores the estimate, for reports; otherwise it is deleted.
func (s *Service) TellCoverage(ctx context.Context, tx postgres.Tx,
	applicationID, clientID, competence, language string,
) (matching.Coverage, error) {
	c, err := s.Coverage(ctx, tx, applicationID, competence, language)
	if err != nil {
		return matching.Coverage{}, err
	}
	return c, keepEstimate(ctx, tx, applicationID, clientID,
		matching.Pair{Competence: competence, Language: language}, c)
}

const purgeBatch = 1000 // rows per statement

// PurgeEstimates deletes estimates that are too old for a new consultation.
func (s *Service) PurgeEstimates(ctx context.Context) (total int, err error) {
	for {
		tx := s.deps.DB.Read()
		n, err := purgeEstimates(ctx, tx, tx.Now.Add(-estimateValidity), purgeBatch)
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}

// InHands returns what the lawyers have in hand, oldest first: ASSIGNED, IN_CALL or CALL_ENDED. Subject and description
// are left out.
func (s *Service) InHands(ctx context.Context, tx postgres.Tx, lawyerIDs ...string) ([]Consultation, error) {
	return inHands(ctx, tx, lawyerIDs)
}

// ClientNumber returns the number to call the client on, as verified at creation (T40). It is only for telephony, when
// dialling.
func (s *Service) ClientNumber(ctx context.Context, consultationID string) (string, error) {
	r, err := phoneToDial(ctx, s.deps.DB.Read(), consultationID)
	if err != nil {
		return "", err
	}
	key, err := s.keys.Of(r.Row.ClientID, r.KeySealed)
	if err != nil {
		return "", err
	}
	phone, err := key.Open(phonePlace(consultationID), r.Row.PhoneSealed)
	return string(phone), err
}

// ApplicationOf returns the application that requested a consultation of any client.
func (s *Service) ApplicationOf(ctx context.Context, consultationID string) (applicationID string, err error) {
	return applicationOf(ctx, s.deps.DB.Read(), consultationID)
}

func (s *Service) open(r openRow) (Consultation, error) {
	c := fromRow(r.Row)
	if c.ErasedAt != nil {
		return c, nil
	}
	key, err := s.keys.Of(c.ClientID, r.KeySealed)
	if err != nil {
		return Consultation{}, err
	}
	subject, err := key.Open(subjectPlace(c.ID), r.Row.SubjectSealed)
	if err != nil {
		return Consultation{}, err
	}
	c.Subject = string(subject)
	if r.Row.DescriptionSealed != nil {
		description, err := key.Open(descriptionPlace(c.ID), r.Row.DescriptionSealed)
		if err != nil {
			return Consultation{}, err
		}
		c.Description = string(description)
	}
	return c, nil
}

// storable reports whether Postgres accepts an ID that came from outside.
func storable(id string) bool { return utf8.ValidString(id) && !strings.ContainsRune(id, 0) }

var errNoNumber = errors.New("the consultation is not one to be called now")
