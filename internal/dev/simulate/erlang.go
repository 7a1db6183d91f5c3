package simulate

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// Single is a one-pair plan that queueing theory can solve. Lawyers never leave; arrivals, service and patience are
// exponential.
type Single struct {
	Lawyers  int
	Load     float64       // offered work divided by the capacity of all lawyers
	Service  time.Duration // mean, from one offer to the next
	Patience time.Duration // mean, until a waiting client cancels
	Arrivals int           // per seed, plus a tenth to warm up
	Seeds    int
}

// Compared holds the simulated figures beside those of theory, with the standard error over the seeds.
type Compared struct {
	Single
	Simulated, Error, Theory Queue
}

// Agrees reports whether every figure differs from theory by at most three standard errors plus one part in a hundred.
func (c Compared) Agrees() bool {
	near := func(got, err, want, unit float64) bool { return math.Abs(got-want) <= 3*err+0.01*unit }
	return near(c.Simulated.Waits, c.Error.Waits, c.Theory.Waits, 1) &&
		near(c.Simulated.Leaves, c.Error.Leaves, c.Theory.Leaves, 1) &&
		near(c.Simulated.Mean, c.Error.Mean, c.Theory.Mean, c.Patience.Seconds())
}

// compare simulates a single pair over its seeds.
func compare(ctx context.Context, d *databases, s Single, seed uint64) (Compared, error) {
	mu, theta := 1/s.Service.Seconds(), 1/s.Patience.Seconds()
	lambda := s.Load * float64(s.Lawyers) * mu
	out := Compared{Single: s, Theory: ErlangA(lambda, mu, theta, s.Lawyers)}
	var waits, leaves, means []float64
	for i := range s.Seeds {
		q, err := playSingle(ctx, d, s, seed+uint64(i), time.Duration(float64(time.Second)/lambda))
		if err != nil {
			return out, err
		}
		waits, leaves, means = append(waits, q.Waits), append(leaves, q.Leaves), append(means, q.Mean)
	}
	out.Simulated.Waits, out.Error.Waits = meanAndError(waits)
	out.Simulated.Leaves, out.Error.Leaves = meanAndError(leaves)
	out.Simulated.Mean, out.Error.Mean = meanAndError(means)
	return out, nil
}

func playSingle(ctx context.Context, d *databases, s Single, seed uint64, between time.Duration) (q Queue, err error) {
	url, drop, err := d.fresh(ctx)
	if err != nil {
		return q, err
	}
	defer drop()
	w, err := newWorld(ctx, url, seed, monday)
	if err != nil {
		return q, err
	}
	defer w.db.Close()
	forever := monday.AddDate(1, 0, 0)
	pair := matching.Pair{Competence: "FAMILY", Language: "FR"}
	leases := map[string]lawyer.Lease{}
	type wanted struct {
		client  string
		at      time.Time
		counted bool // after the warm-up
		begun   bool
	}
	all := map[string]*wanted{}
	w.offered = func(o matching.Offer) error {
		c, lease := all[o.ConsultationID], leases[o.LawyerID]
		if err := w.consultations.AcceptOffer(w.ctx, lease, o.ID); errors.Is(err, matching.ErrOfferGone) {
			return nil // another lawyer was faster
		} else if err != nil {
			return err
		}
		if c.begun = true; c.counted {
			waited := o.CreatedAt.Sub(c.at).Seconds()
			if q.Mean += waited; waited > 0 {
				q.Waits++
			}
		}
		if err := w.consultations.StartCall(w.ctx, lease, o.ConsultationID); err != nil {
			return err
		}
		if _, err := w.phone(o.ConsultationID, answers); err != nil {
			return err
		}
		service := w.exponential(s.Service)
		w.after(min(service, callLimit),
			func() error { return w.consultations.EndCall(w.ctx, lease, o.ConsultationID) })
		w.after(service, func() error {
			w.ended(c.client)
			return w.consultations.SubmitNote(w.ctx, lease, o.ConsultationID, "Note", "Preview")
		})
		return nil
	}
	for i := range s.Lawyers {
		id, err := w.newLawyer(i, []matching.Pair{pair})
		if err != nil {
			return q, err
		}
		if leases[id], err = w.signOn(id, forever); err != nil {
			return q, err
		}
	}
	left := s.Arrivals + s.Arrivals/10
	var arrive func() error
	arrive = func() error {
		if left--; left > 0 {
			w.after(w.exponential(between), arrive)
		}
		client, err := w.anyone()
		if err != nil {
			return err
		}
		c, err := w.create(client, pair)
		if err != nil {
			return err
		}
		r := &wanted{client: c.ClientID, at: w.clock.Now(), counted: left < s.Arrivals}
		all[c.ID] = r
		w.after(w.exponential(s.Patience), func() error {
			if r.begun {
				return nil
			}
			if r.counted {
				q.Leaves, q.Waits, q.Mean = q.Leaves+1, q.Waits+1, q.Mean+w.clock.Now().Sub(r.at).Seconds()
			}
			w.ended(r.client)
			return w.db.InTx(w.ctx, func(tx postgres.Tx) error {
				_, err := w.consultations.Cancel(w.ctx, tx, w.application, c.ClientID, c.ID)
				return err
			})
		})
		return nil
	}
	w.after(0, arrive)
	never := func() bool { return false } // nothing falls due before its event
	if err := w.run(forever, never); err != nil {
		return q, err
	}
	n := float64(s.Arrivals)
	return Queue{Waits: q.Waits / n, Leaves: q.Leaves / n, Mean: q.Mean / n}, nil
}

var (
	insertLawyerSQL = postgres.SQL(postgres.Batch,
		`INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, simulated, created_at, updated_at)
		VALUES ($1, $1 || '@lawyer.example', 'Demo Lawyer', '', '\x00', 'OFFLINE', true, $2, $2)`)
	insertPairSQL = postgres.SQL(postgres.Batch,
		`INSERT INTO lawyer_pairs (lawyer_id, competence, language) VALUES ($1, $2, $3)`)
)

// newLawyer adds a lawyer who is not signed on yet.
func (w *world) newLawyer(number int, pairs []matching.Pair) (id string, err error) {
	id = "law_" + strconv.Itoa(number)
	return id, w.db.InTx(w.ctx, func(tx postgres.Tx) error {
		if _, err := tx.Exec(w.ctx, insertLawyerSQL, id, tx.Now); err != nil {
			return err
		}
		for _, p := range pairs {
			if _, err := tx.Exec(w.ctx, insertPairSQL, id, p.Competence, p.Language); err != nil {
				return err
			}
		}
		return nil
	})
}

// meanAndError returns the mean of several runs and its standard error.
func meanAndError(x []float64) (mean, err float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		err += (v - mean) * (v - mean)
	}
	if len(x) < 2 {
		return mean, math.Inf(1)
	}
	return mean, math.Sqrt(err / float64(len(x)-1) / float64(len(x)))
}
