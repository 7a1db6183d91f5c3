package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// overlap covers transactions that began before the restore point and committed after it. Rows carry the time at which
// their transaction began.
const overlap = 5 * time.Minute

// restored is the audit action of [Settle]; its subject is the restore point.
const restored = "deployment.restored"

// maxActs limits how many audit entries of the lost database are read for manual actions.
const maxActs = 1000

// Report lists what was done and what is left for people to do. All fields after the first five need the lost database.
type Report struct {
	To            time.Time `json:"to"`
	Consultations int       `json:"consultationsMovedOn"` // whose next event number no partner has seen
	// applications whose event list continues after every issued position
	Applications int  `json:"applicationsMovedOn"`
	SignedOut    int  `json:"signedOut"` // ended browser sessions
	Compared     bool `json:"compared"`  // whether the lost database was available

	LinksEnded int       `json:"linksEnded"`
	TokensKept int       `json:"tokensKept"` // working refresh tokens that partners received after the restore point
	Erased     []string  `json:"erased"`     // client IDs
	NotErased  []Refused `json:"notErased"`

	Gone     []consultation.Gone `json:"gone"`
	Repeated []string            `json:"repeated"` // consultation IDs
	Payments []payment.Missing   `json:"payments"`
	Acts     []Done              `json:"acts"` // newest first
}

// Refused is a client who could not be erased, and why.
type Refused struct {
	ClientID string `json:"clientId"`
	Why      string `json:"why"`
}

// Done is a manual action that the restored database does not know.
type Done struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Subject string    `json:"subject"`
	Reason  string    `json:"reason"`
}

// later is what the lost database knows and the restored one does not.
type later struct {
	links         oauth.Later
	consultations consultation.Later
	erased        []string
	payments      []payment.Missing
	acts          []Done
}

// Settle prepares db, which was restored to the time to, for the program. lost is the lost database, or nil if there is
// none. The program must not run on db at the same time.
func Settle(ctx context.Context, db, lost *postgres.DB, erasures *privacy.Service, by operator.Act,
	to time.Time,
) (Report, error) {
	var l later
	if lost != nil {
		var err error
		if l, err = readLater(ctx, db.Read(), lost.Read(), to.Add(-overlap)); err != nil {
			return Report{}, err
		}
	}
	r := Report{To: to, Compared: lost != nil, Gone: l.consultations.Gone, Repeated: l.consultations.Repeated,
		Payments: l.payments, Acts: l.acts}
	err := db.InTx(ctx, func(tx postgres.Tx) (err error) {
		if r.Consultations, err = consultation.MoveOn(ctx, tx, l.consultations); err != nil {
			return err
		}
		if r.Applications, err = webhook.MoveOn(ctx, tx); err != nil {
			return err
		}
		clients, err := account.EndAllSessions(ctx, tx)
		if err != nil {
			return err
		}
		people, err := staff.EndAllSessions(ctx, tx)
		if err != nil {
			return err
		}
		r.SignedOut = clients + people
		if r.LinksEnded, r.TokensKept, err = l.links.Apply(ctx, tx); err != nil {
			return err
		}
		return by.Record(ctx, tx, restored, to.Format(time.RFC3339Nano), map[string]any{"compared": r.Compared,
			"gone": len(r.Gone), "repeated": len(r.Repeated), "linksEnded": r.LinksEnded, "toErase": len(l.erased)})
	})
	if err != nil {
		return Report{}, err
	}
	for _, clientID := range l.erased {
		err := db.InTx(ctx, func(tx postgres.Tx) error {
			if err := erasures.EraseAgain(ctx, tx, clientID); err != nil {
				return err
			}
			return by.Record(ctx, tx, "client.erase_again", clientID, nil)
		})
		switch {
		case err == nil:
			r.Erased = append(r.Erased, clientID)
		case errors.Is(err, problem.ErrNotFound): // created after the restore point, or already erased here
		case isRefusal(err):
			r.NotErased = append(r.NotErased, Refused{clientID, err.Error()})
		default:
			return Report{}, fmt.Errorf("erase %s again: %w", clientID, err)
		}
	}
	return r, remember(ctx, db, by)
}

func isRefusal(err error) bool {
	var refused privacy.Refused
	return errors.As(err, &refused)
}

func readLater(ctx context.Context, tx, lost postgres.Tx, since time.Time) (l later, err error) {
	if l.links, err = oauth.ReadLater(ctx, lost, since); err != nil {
		return l, err
	}
	if l.consultations, err = consultation.ReadLater(ctx, tx, lost, since); err != nil {
		return l, err
	}
	if l.payments, err = payment.MissingSince(ctx, tx, lost, since); err != nil {
		return l, err
	}
	if l.erased, err = account.ErasedSince(ctx, lost, since); err != nil {
		return l, err
	}
	l.acts, err = actsSince(ctx, tx, lost, since)
	return l, err
}

func actsSince(ctx context.Context, tx, lost postgres.Tx, since time.Time) (acts []Done, err error) {
	entries, err := audit.List(ctx, lost, "", 0, maxActs)
	if err != nil {
		return nil, fmt.Errorf("of the lost database: %w", err)
	}
	for _, e := range entries {
		if e.CreatedAt.Before(since) {
			break
		}
		known, err := audit.Has(ctx, tx, e.ID)
		if err != nil {
			return nil, err
		}
		if !known {
			acts = append(acts, Done{e.CreatedAt, e.Actor, e.Action, e.Subject, e.Reason})
		}
	}
	return acts, nil
}
