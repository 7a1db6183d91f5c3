package lawyer

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// noPassword matches no password: lawyers sign in as people of package staff.
const noPassword = "!"

// Service reads and changes lawyers. Safe for concurrent use.
type Service struct {
	box         *seal.Box
	watch       func(lawyerID string)
	onlyChecked bool
}

// New creates the service; box seals phone numbers.
func New(box *seal.Box) *Service { return &Service{box: box} }

// Watch registers f, which is called after each commit that changes what a lawyer sees at the desk. Call it once,
// before any other method; f must not block.
func (s *Service) Watch(f func(lawyerID string)) { s.watch = f }

// Changed calls the function registered with [Service.Watch] after tx commits, because what a lawyer sees at the desk
// has changed. This package calls it for its own writes; other packages call it for theirs. An empty lawyerID is
// ignored.
func (s *Service) Changed(tx postgres.Tx, lawyerID string) {
	if s.watch != nil && lawyerID != "" {
		tx.AfterCommit(func() { s.watch(lawyerID) })
	}
}

// Create adds an OFFLINE lawyer with their pairs. It returns [ErrInvalid], [ErrUnknownCode] (which names the codes) or
// [ErrEmailTaken].
func (s *Service) Create(ctx context.Context, tx postgres.Tx, n NewLawyer) (Lawyer, error) {
	n.Email, n.Name = strings.TrimSpace(n.Email), strings.TrimSpace(n.Name)
	n.Competences, n.Languages = distinct(n.Competences), distinct(n.Languages)
	if err := Check(n); err != nil {
		return Lawyer{}, err
	}
	if err := checkCodes(ctx, tx, n.Competences, n.Languages); err != nil {
		return Lawyer{}, err
	}
	l := Lawyer{ID: tx.NewID(id.Lawyer), Email: n.Email, Name: n.Name, State: Offline, Simulated: n.Simulated,
		ApplicationID: n.ApplicationID, CreatedAt: tx.Now}
	phone, err := s.box.Seal(phonePlace(l.ID), []byte(n.Phone))
	if err != nil {
		return Lawyer{}, err
	}
	if err := insert(ctx, tx, l, noPassword, phone); err != nil {
		return Lawyer{}, err
	}
	return l, insertPairs(ctx, tx, l.ID, n.Competences, n.Languages)
}

// Get returns a lawyer, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, tx postgres.Tx, lawyerID string) (Lawyer, error) {
	return get(ctx, tx, lawyerID)
}

// List returns at most limit lawyers in the order of their registration, starting after the lawyer with the ID after.
func (s *Service) List(ctx context.Context, tx postgres.Tx, after string, limit int) ([]Lawyer, error) {
	return list(ctx, tx, after, limit)
}

// Skills are the catalog codes that a lawyer serves: every competence in every language.
type Skills struct{ Competences, Languages []string }

// Skills returns what a lawyer serves.
func (s *Service) Skills(ctx context.Context, tx postgres.Tx, lawyerID string) (Skills, error) {
	return skills(ctx, tx, lawyerID)
}

// SetSkills replaces what a lawyer serves, from the next search; an open offer stays. If the lawyer is AVAILABLE, the
// caller must start a search. It returns [ErrInvalid] if a list is empty, [ErrUnknownCode] or [ErrNotFound].
func (s *Service) SetSkills(ctx context.Context, tx postgres.Tx, lawyerID string,
	to Skills,
) (before Skills, err error) {
	to.Competences, to.Languages = distinct(to.Competences), distinct(to.Languages)
	if len(to.Competences) == 0 || len(to.Languages) == 0 {
		return before, problem.Refuse(ErrInvalid, checkSkills(to.Competences, to.Languages)...)
	}
	if err := checkCodes(ctx, tx, to.Competences, to.Languages); err != nil {
		return before, err
	}
	l, err := s.Lock(ctx, tx, lawyerID) // as a search does before it reads the lawyer's place in the queues
	if err != nil {
		return before, err
	}
	if before, err = skills(ctx, tx, lawyerID); err != nil {
		return before, err
	}
	return before, replacePairs(ctx, tx, l, to)
}

// Lock returns a lawyer and locks their row until the transaction ends, or returns [ErrNotFound].
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, lawyerID string) (Lawyer, error) {
	return get(ctx, tx, lawyerID, lockLawyer)
}

// Hold is [Service.Lock] for the lawyer's own actions: it returns [ErrLeaseLost] if lease is not the current one. No
// other connection can take the lease over before the transaction ends.
func (s *Service) Hold(ctx context.Context, tx postgres.Tx, lease Lease) error {
	return hold(ctx, tx, lease)
}

// GoOnline starts a new lease and cancels a requested pause. A lawyer who was OFFLINE or AWAY, or whose lease was lost,
// becomes AVAILABLE at the back of the queue. One with work in hand keeps their state. The caller must then search for
// work. It returns [ErrNoPhone], [ErrUnchecked], [ErrSuspended] or [ErrNotFound].
func (s *Service) GoOnline(ctx context.Context, tx postgres.Tx, lawyerID string) (Lease, error) {
	sealed, err := phone(ctx, tx, lawyerID)
	if err != nil {
		return Lease{}, err
	}
	if sealed == nil {
		return Lease{}, ErrNoPhone
	}
	if s.onlyChecked {
		r, err := registration(ctx, tx, lawyerID)
		if err != nil {
			return Lease{}, err
		}
		if !r.Checked(tx.Now) {
			return Lease{}, ErrUnchecked
		}
	}
	epoch, err := goOnline(ctx, tx, lawyerID)
	if err != nil {
		return Lease{}, err
	}
	s.Changed(tx, lawyerID)
	return Lease{LawyerID: lawyerID, Epoch: epoch}, nil
}

// GoOffline signs a lawyer off and ends the lease. It returns [ErrState] while the lawyer has an offer or a
// consultation in hand, or [ErrLeaseLost].
func (s *Service) GoOffline(ctx context.Context, tx postgres.Tx, lease Lease) error {
	if err := hold(ctx, tx, lease); err != nil {
		return err
	}
	return s.SetState(ctx, tx, lease.LawyerID, []State{Available, Away, WrapUp, Offline}, Off(SignedOff))
}

// Pause makes a lawyer AWAY, immediately if they wait for work, otherwise after the work in hand. [Service.GoOnline]
// ends the pause. It returns [ErrState] if the lawyer is OFFLINE, or [ErrLeaseLost].
func (s *Service) Pause(ctx context.Context, tx postgres.Tx, lease Lease) error {
	if err := hold(ctx, tx, lease); err != nil {
		return err
	}
	if err := pause(ctx, tx, lease.LawyerID); err != nil {
		return err
	}
	s.Changed(tx, lease.LawyerID)
	return nil
}

// Rest is [Service.Pause] for a simulated lawyer, who has no connection.
func (s *Service) Rest(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	s.Changed(tx, lawyerID)
	return pause(ctx, tx, lawyerID)
}

// Beat renews a lease, or returns [ErrLeaseLost].
func (s *Service) Beat(ctx context.Context, tx postgres.Tx, lease Lease) error {
	return beat(ctx, tx, lease)
}

// BeatAll renews several leases in one statement and returns those that are known to be lost.
func (s *Service) BeatAll(ctx context.Context, tx postgres.Tx, leases ...Lease) (lost []Lease, err error) {
	return beatAll(ctx, tx, leases)
}

// Heartbeat renews the leases of several signed-on lawyers, whichever connection they use, in one statement.
func (s *Service) Heartbeat(ctx context.Context, tx postgres.Tx, lawyerIDs ...string) error {
	return heartbeat(ctx, tx, lawyerIDs)
}

// SetState moves a lawyer from one of the states from, or returns [ErrState]. A move to AVAILABLE goes to the back of
// the queue. It makes a suspended or sent-home lawyer OFFLINE, and one who asked for a pause AWAY.
func (s *Service) SetState(ctx context.Context, tx postgres.Tx, lawyerID string, from []State, to Move) error {
	s.Changed(tx, lawyerID)
	return setState(ctx, tx, lawyerID, from, to, false)
}

// Release makes a lawyer AVAILABLE after an offer that did not become work. With keepPlace the lawyer keeps their place
// in the queue, otherwise they go to its back. It returns [ErrState] if the lawyer is not OFFERED.
func (s *Service) Release(ctx context.Context, tx postgres.Tx, lawyerID string, keepPlace bool) error {
	s.Changed(tx, lawyerID)
	return setState(ctx, tx, lawyerID, []State{Offered}, On(Available), keepPlace)
}

// Suspend keeps a lawyer from work and from signing on until [Service.Resume], and ends their presence: they count as
// lost ([LeaseLost]). They go OFFLINE, if BUSY or in WRAP_UP only when that is over. With keepLease the connection
// stays valid to finish a call or a note; without it, it is rejected. why is [BySuspension], or [SentHome] if the
// lawyer is resumed in the same transaction. The caller must hold the lock.
func (s *Service) Suspend(ctx context.Context, tx postgres.Tx, lawyerID string, why Leaving, keepLease bool) error {
	s.Changed(tx, lawyerID)
	return suspend(ctx, tx, lawyerID, why, keepLease)
}

// TakeOver starts a new lease of a suspended lawyer who has something to finish, and changes nothing else. It returns
// [ErrState] if the lawyer is not suspended.
func (s *Service) TakeOver(ctx context.Context, tx postgres.Tx, lawyerID string) (Lease, error) {
	epoch, err := takeOver(ctx, tx, lawyerID)
	if err != nil {
		return Lease{}, err
	}
	s.Changed(tx, lawyerID)
	return Lease{LawyerID: lawyerID, Epoch: epoch}, nil
}

// Resume lets a suspended lawyer sign on again, or returns [ErrNotFound].
func (s *Service) Resume(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	s.Changed(tx, lawyerID)
	return resume(ctx, tx, lawyerID)
}

// SetPhone replaces the lawyer's number, in E.164. It returns [ErrInvalid] or [ErrNotFound].
func (s *Service) SetPhone(ctx context.Context, tx postgres.Tx, lawyerID, number string) error {
	if err := checkPhone(number); err != nil {
		return err
	}
	sealed, err := s.box.Seal(phonePlace(lawyerID), []byte(number))
	if err != nil {
		return err
	}
	return updatePhone(ctx, tx, lawyerID, sealed)
}

// Phone returns the lawyer's number in E.164, or [ErrNoPhone]. Use it to dial immediately, and do not store it.
func (s *Service) Phone(ctx context.Context, tx postgres.Tx, lawyerID string) (string, error) {
	sealed, err := phone(ctx, tx, lawyerID)
	if err != nil {
		return "", err
	}
	if sealed == nil {
		return "", ErrNoPhone
	}
	plain, err := s.box.Open(phonePlace(lawyerID), sealed)
	return string(plain), err
}

// BusyLost lists the BUSY lawyers whose lease is lost.
func (s *Service) BusyLost(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return busyLost(ctx, tx, tx.Now.Add(-LeaseLost))
}

// lostBatch is the maximum number of lawyers that [Service.SignOffLost] changes.
const lostBatch = 500

// SignOffLost makes lawyers OFFLINE who were AVAILABLE or AWAY and whose lease is lost. They lose their place in the
// queue, and their old connection is rejected. If more is true, call it again.
func (s *Service) SignOffLost(ctx context.Context, tx postgres.Tx) (more bool, err error) {
	n, err := signOffLost(ctx, tx, tx.Now.Add(-LeaseLost), lostBatch)
	return n == lostBatch, err
}

const shiftsKept = 13 // months that reports can look back

const purgeBatch = 1000 // rows per statement

// PurgeShifts deletes shifts that ended more than 13 months ago; tx commits each statement.
func (s *Service) PurgeShifts(ctx context.Context, tx postgres.Tx) (total int, err error) {
	for {
		n, err := purgeShifts(ctx, tx, tx.Now.AddDate(0, -shiftsKept, 0), purgeBatch)
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}

// ReturnIdle makes lawyers AVAILABLE who are OFFLINE, AWAY or in WRAP_UP, not suspended and have a phone number. They
// get a new lease and the back of the queue. It returns their IDs. The caller must hold their locks and know that they
// have nothing in hand.
func (s *Service) ReturnIdle(ctx context.Context, tx postgres.Tx, lawyerIDs ...string) ([]string, error) {
	if len(lawyerIDs) == 0 {
		return nil, nil
	}
	return returnIdle(ctx, tx, lawyerIDs)
}

// Simulated lists the simulated lawyers that are neither suspended nor AWAY: their presence must be renewed.
func (s *Service) Simulated(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return simulated(ctx, tx)
}

func phonePlace(lawyerID string) string { return "lawyer.phone:" + lawyerID }

var e164 = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

func checkPhone(number string) error {
	if !e164.MatchString(number) {
		return problem.Refuse(ErrInvalid, problem.RulePhone.At("phone"))
	}
	return nil
}

// Check returns [ErrInvalid] with everything that is wrong with a new lawyer.
func Check(n NewLawyer) error {
	issues := problem.Name("name", strings.TrimSpace(n.Name), maxName)
	if email := strings.TrimSpace(n.Email); !text.IsEmail(email) {
		issues = append(issues, problem.Address("email", email))
	}
	issues = append(issues, problem.IssuesOf(checkPhone(n.Phone))...)
	if issues = append(issues, checkSkills(n.Competences, n.Languages)...); issues != nil {
		return problem.Refuse(ErrInvalid, issues...)
	}
	return nil
}

const maxName = 200

// checkSkills requires at least one competence and one language.
func checkSkills(competences, languages []string) (issues []problem.Issue) {
	if len(competences) == 0 {
		issues = append(issues, problem.RuleRequired.At("competences"))
	}
	if len(languages) == 0 {
		issues = append(issues, problem.RuleRequired.At("languages"))
	}
	return issues
}

func distinct(codes []string) []string {
	c := slices.Clone(codes)
	slices.Sort(c)
	return slices.Compact(c)
}
