package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	walletConnections = 32
	hotConnections    = 8
	walletWarmUp      = time.Second
)

func walletScenarios() []Scenario {
	return []Scenario{
		{Name: "wallet/create consultation", Run: createMany},
		{Name: "wallet/create, one hot wallet", Run: createHot},
		{Name: "wallet/read", Run: readWallet},
		{Name: "wallet/transactions page", Run: readPage},
	}
}

// createMany creates consultations of 64 clients over 32 connections. It includes token, validation, idempotency,
// money, events and evidence. pgbench then runs the same statements with as many clients, each with new rows.
func createMany(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newWalletRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	statements, trips, err := r.record(ctx, r.create, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	m, err := r.steady(ctx, e.Load, walletConnections, benchWallets, r.create, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	if err := r.made(ctx); err != nil {
		return nil, err
	}
	lost, err := e.sink.lost(r.app.Metrics)
	if err != nil {
		return nil, err
	}
	results := append(append(m.results(0), lost...), Result{Measure: "statements, BEGIN and COMMIT included",
		Value: float64(len(statements)), AtMost: 10},
		Result{Measure: "round trips", Value: float64(trips), AtMost: 6})
	if results, err = r.against(ctx, e, results, m, statements, walletConnections, 0.35); err != nil {
		return results, err
	}
	return results, r.replayed(ctx)
}

// createHot does the same on a single wallet, beside many wallets with as many connections.
func createHot(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newWalletRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	many, err := r.steady(ctx, e.Load, hotConnections, benchWallets, r.create, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	hot, err := r.steady(ctx, e.Load, hotConnections, 1, r.create, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	if err := r.made(ctx); err != nil {
		return nil, err
	}
	return append(hot.results(0),
		Result{Measure: "many wallets, 8 connections", Value: many.rate, Unit: "requests/s"},
		Result{Measure: "hot : many", Value: hot.rate / many.rate, AtLeast: 0.33}), nil
}

func readWallet(ctx context.Context, e *Env) ([]Result, error) {
	return readOf(ctx, e, 3000, at("/api/v1/wallet"))
}

func readPage(ctx context.Context, e *Env) ([]Result, error) {
	return readOf(ctx, e, 3000, at("/api/v1/wallet/transactions?limit=20"))
}

// at returns a path that has content from the start.
func at(path string) func(context.Context, *walletRig) (string, error) {
	return func(context.Context, *walletRig) (string, error) { return path, nil }
}

// readOf reads over many connections from the path that prepare returns, beside wallets with their history. prepare
// creates the data to read.
func readOf(ctx context.Context, e *Env, atLeast float64,
	prepare func(context.Context, *walletRig) (path string, err error),
) ([]Result, error) {
	r, err := newWalletRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	path, err := prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	get := r.get(path)
	statements, _, err := r.record(ctx, get, http.StatusOK)
	if err != nil {
		return nil, err
	}
	m, err := r.steady(ctx, e.Load, walletConnections, benchWallets, get, http.StatusOK)
	if err != nil {
		return nil, err
	}
	results := append(m.results(atLeast), Result{Measure: "statements, each a round trip",
		Value: float64(len(statements)), AtMost: 10})
	return r.against(ctx, e, results, m, statements, walletConnections, 0)
}

// steady runs a load after a warm-up.
func (r *walletRig) steady(ctx context.Context, d time.Duration, connections, wallets int, next request,
	want int,
) (*measured, error) {
	if _, err := r.load(ctx, walletWarmUp, connections, wallets, next, want); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	return r.load(ctx, d, connections, wallets, next, want)
}

func (m *measured) results(atLeast float64) []Result {
	return []Result{
		{Measure: "answered", Value: m.rate, Unit: "requests/s", AtLeast: atLeast},
		{Measure: "p50", Value: m.took.Percentile(50), Unit: "ms"},
		{Measure: "p99", Value: m.took.Percentile(99), Unit: "ms"},
	}
}

// against adds the comparison of the load with pgbench, which runs the same statements on the same database.
func (r *walletRig) against(ctx context.Context, e *Env, results []Result, m *measured, statements []statement,
	clients int, atLeast float64,
) ([]Result, error) {
	tps, err := r.pgbench(ctx, r.script(statements), clients, e.Load)
	if err != nil {
		return results, err
	}
	return append(results,
		Result{Measure: "pgbench, the same statements", Value: tps, Unit: "transactions/s"},
		Result{Measure: "× pgbench, the same statements", Value: m.rate / tps, AtLeast: atLeast}), nil
}

// replayed checks that pgbench did what the requests did: complete consultations and a correct ledger.
func (r *walletRig) replayed(ctx context.Context) error {
	var consultations, holds, events int64
	err := r.app.DB.Pool().QueryRow(ctx,
		`SELECT (SELECT count(*) FROM consultations), (SELECT count(*) FROM holds WHERE state = 'ACTIVE'),
		(SELECT count(*) FROM webhook_events)`).Scan(&consultations, &holds, &events)
	if err != nil {
		return err
	}
	if consultations <= r.keys.Load() || holds != consultations || events != 3*consultations {
		return fmt.Errorf("pgbench made something else: %d consultations, %d holds, %d events",
			consultations, holds, events)
	}
	return r.sound(ctx)
}

// made checks that every request created one consultation with its hold and its three events, and that the ledger is
// correct.
func (r *walletRig) made(ctx context.Context) error {
	var consultations, holds, events int64
	err := r.app.DB.Pool().QueryRow(ctx,
		`SELECT (SELECT count(*) FROM consultations), (SELECT count(*) FROM holds WHERE state = 'ACTIVE'),
		(SELECT count(*) FROM webhook_events)`).Scan(&consultations, &holds, &events)
	if err != nil {
		return err
	}
	if sent := r.keys.Load(); consultations != sent || holds != sent || events != 3*sent {
		return fmt.Errorf("%d requests made %d consultations, %d holds, %d events", sent, consultations, holds, events)
	}
	return r.sound(ctx)
}
