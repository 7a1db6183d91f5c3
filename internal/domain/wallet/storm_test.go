package wallet_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// All kinds of movements at the same time, on one wallet and several, in any order, lose nothing and never deadlock.
func TestAStormOfMovements(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const workers, rounds = 8, 40
	clients := []string{f.funded(30_000), f.funded(8_000), f.funded(2_000)}
	sessions := make([]string, workers*rounds) // created first: the fixture's counter is not safe for concurrent use
	for i := range sessions {
		sessions[i] = f.session(clients[i%len(clients)], 700)
	}
	// Workers use each other's holds. They retry ended ones on purpose.
	storm := func(worker int) error {
		r := rand.New(rand.NewPCG(1, uint64(worker)))
		for i := range rounds {
			client := clients[r.IntN(len(clients))]
			con := fmt.Sprintf("con_%d_%d", r.IntN(workers), r.IntN(i+1))
			var err error
			switch r.IntN(6) {
			case 0, 1:
				err = f.hold(f.wallets, client, fmt.Sprintf("con_%d_%d", worker, i), 2000)
			case 2:
				err = f.release(con)
			case 3:
				err = f.capture(con)
			case 4:
				err = f.refund(con, 100)
			default:
				n := worker*rounds + i
				err = f.db.InTx(t.Context(), func(tx postgres.Tx) error {
					return f.wallets.TopUp(t.Context(), tx, clients[n%len(clients)], application, sessions[n], 700)
				})
			}
			if err != nil && !errors.Is(err, wallet.ErrInsufficientFunds) && !errors.Is(err, wallet.ErrHoldEnded) &&
				!errors.Is(err, wallet.ErrNotRefundable) {
				return err
			}
		}
		return nil
	}
	for _, err := range parallel(workers, storm) {
		if err != nil {
			t.Error(err)
		}
	}
	var deadlocks int
	err := f.db.Pool().QueryRow(t.Context(),
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
	if err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
	f.sound()
}
