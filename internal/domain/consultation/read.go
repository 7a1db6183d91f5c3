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

// Get returns a consultation that the application started for the client. Problem: NOT_FOUND, for one that does not
// exist and for one of somebody else alike (T7).
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

// ListFilter chooses among the consultations of an application and a client. What is zero chooses all.
type ListFilter struct {
	Status        Status
	ExternalRef   string    // exactly
	CreatedAfter  time.Time // at it or later
	CreatedBefore time.Time // not at it
}

// List returns consultations that the application started for the client, newest first, beginning after the position
// (zero: with the newest), at most limit of them; more tells whether others follow.
func (s *Service) List(ctx context.Context, tx postgres.Tx, applicationID, clientID string, f ListFilter,
	before Position, limit int,
) (items []Consultation, more bool, err error) {
	rows, err := list(ctx, tx, applicationID, clientID, f, before, limit+1)
	if err != nil {
		return nil, false, err
	}
	return s.openPage(rows, limit)
}

// openPage opens the first limit rows; more tells whether there are others.
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

// Served tells whether consultations are taken: calls can be made.
func (s *Service) Served() bool { return s.deps.Telephony.Available() }

// Coverage tells whether lawyers can be reached now for a competence and language, and how long it may take
// (specification section 2.6, decisions H34 to H36), in a sandbox for an application. Nobody can where no call can be
// made.
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

// TellCoverage is [Service.Coverage] for a partner who asks for a client. A consultation that begins within the next
// ten minutes keeps what was told, for reports; otherwise it is forgotten.
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

const purgeBatch = 1000 // rows in a statement

// PurgeEstimates deletes what was told about waits for which no consultation can begin any more.
func (s *Service) PurgeEstimates(ctx context.Context) (total int, err error) {
	for {
		tx := s.deps.DB.Read()
		n, err := purgeEstimates(ctx, tx, tx.Now.Add(-estimateHolds), purgeBatch)
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}

// InHands returns what the lawyers have in their hands, oldest first: ASSIGNED, IN_CALL or CALL_ENDED. Subject and
// description are left out.
func (s *Service) InHands(ctx context.Context, tx postgres.Tx, lawyerIDs ...string) ([]Consultation, error) {
	return inHands(ctx, tx, lawyerIDs)
}

// ClientNumber returns the number to call the client on, as it was verified at creation (T40). For telephony, at dial
// time; nobody else asks.
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

// ApplicationOf returns the application through which a consultation was requested, whoever it belongs to.
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

// storable tells whether Postgres takes an identifier that came from outside.
func storable(id string) bool { return utf8.ValidString(id) && !strings.ContainsRune(id, 0) }

var errNoNumber = errors.New("the consultation is not one to be called now")
