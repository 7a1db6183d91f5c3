package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	apiLawyers = 2_000
	apiFill    = 3 * time.Second // time for clients to create their consultations
	listPath   = "/api/v1/consultations?limit=20"
)

func apiScenarios() []Scenario {
	return []Scenario{{"api/list", listMany}, {"api/coverage", coverageMany}, {"api/mixed day", mixedDay}}
}

// listMany reads the first page of clients who have twenty consultations or more.
func listMany(ctx context.Context, e *Env) ([]Result, error) {
	return readOf(ctx, e, 0, func(ctx context.Context, r *walletRig) (string, error) {
		return listPath, r.consultations(ctx)
	})
}

// coverageMany asks for coverage in the pair that most of 2 000 lawyers serve.
func coverageMany(ctx context.Context, e *Env) ([]Result, error) {
	return readOf(ctx, e, 0, func(ctx context.Context, r *walletRig) (string, error) { return r.covered(ctx) })
}

// consultations creates consultations for every client.
func (r *walletRig) consultations(ctx context.Context) error {
	_, err := r.load(ctx, apiFill, walletConnections, benchWallets, r.create, http.StatusCreated)
	return err
}

// covered signs lawyers on and returns the coverage path of the pair that most of them serve.
func (r *walletRig) covered(ctx context.Context) (path string, err error) {
	people := &matchRig{app: r.app}
	if err := people.lawyers(ctx, apiLawyers, false); err != nil {
		return "", fmt.Errorf("make lawyers: %w", err)
	}
	err = r.app.DB.Pool().QueryRow(ctx,
		`SELECT '/api/v1/coverage?competence=' || competence || '&language=' || language FROM lawyer_pairs
		GROUP BY competence, language ORDER BY count(*) DESC, competence, language LIMIT 1`).Scan(&path)
	return path, err
}

// share is a kind of request and its weight among all shares.
type share struct {
	name string
	of   int
	next request
	want int
}

// mixedDay sends the mix of requests that we expect from a partner's system. Most requests read one consultation after
// a webhook, or a list; one in twenty creates a consultation.
func mixedDay(ctx context.Context, e *Env) ([]Result, error) {
	r, err := newWalletRig(ctx, e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	coverPath, err := r.covered(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.consultations(ctx); err != nil {
		return nil, err
	}
	ids, err := r.newest(ctx)
	if err != nil {
		return nil, err
	}
	var turn atomic.Int64
	day := []share{
		{"one consultation", 40, func(client int) []byte {
			own := ids[client]
			return r.get("/api/v1/consultations/" + own[int(turn.Add(1))%len(own)])(client)
		}, http.StatusOK},
		{"list", 20, r.get(listPath), http.StatusOK},
		{"wallet", 15, r.get("/api/v1/wallet"), http.StatusOK},
		{"coverage", 10, r.get(coverPath), http.StatusOK},
		{"catalog", 5, r.get("/api/v1/catalog/competences"), http.StatusOK},
		{"transactions", 5, r.get("/api/v1/wallet/transactions?limit=20"), http.StatusOK},
		{"create", 5, r.create, http.StatusCreated},
	}
	if _, _, err := r.mix(ctx, walletWarmUp, walletConnections, benchWallets, day); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	m, each, err := r.mix(ctx, e.Load, walletConnections, benchWallets, day)
	if err != nil {
		return nil, err
	}
	if err := r.made(ctx); err != nil {
		return nil, err
	}
	results := append(m.results(0), Result{Measure: "p99.9", Value: m.took.Percentile(99.9), Unit: "ms"})
	for i, s := range day {
		results = append(results,
			Result{Measure: s.name + ": p50", Value: each[i].Percentile(50), Unit: "ms"},
			Result{Measure: s.name + ": p99", Value: each[i].Percentile(99), Unit: "ms"})
	}
	return results, nil
}

// newest lists the IDs on the first page of each client.
func (r *walletRig) newest(ctx context.Context) ([][]string, error) {
	ids := make([][]string, len(r.clients))
	for client, token := range r.tokens {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+listPath, http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil || len(page.Items) == 0 {
			return nil, fmt.Errorf("client %d has no consultation: %d %.200s %w", client, res.StatusCode, body, err)
		}
		for _, c := range page.Items {
			ids[client] = append(ids[client], c.ID)
		}
	}
	return ids, nil
}

// mix sends requests of each kind in day for d, spread over the given number of connections, and also measures each
// kind separately. Each connection sends one request after the other and alternates between the kinds. An unexpected
// response is an error.
func (r *walletRig) mix(ctx context.Context, d time.Duration, connections, wallets int,
	day []share,
) (*measured, []*Latencies, error) {
	order := spread(day)
	m, each := &measured{}, make([]*Latencies, len(day))
	for i := range each {
		each[i] = &Latencies{}
	}
	var count atomic.Int64
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for c := range connections {
		g.Go(func() error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for n := 0; time.Since(start) < d && ctx.Err() == nil; n++ {
				kind := order[(c*7+n)%len(order)]
				s := day[kind]
				began := time.Now()
				if err := exchange(conn, in, s.next((c+n*connections)%wallets), s.want); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				took := time.Since(began)
				m.took.Add(took)
				each[kind].Add(took)
				count.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	m.count = count.Load()
	m.rate = float64(m.count) / time.Since(start).Seconds()
	return m, each, err
}

// spread lists each kind as often as its shares say, spaced as evenly as possible.
func spread(day []share) (order []int) {
	left := make([]int, len(day))
	for i, s := range day {
		left[i] = s.of
	}
	for more := true; more; {
		more = false
		for i := range left {
			if left[i] > 0 {
				left[i]--
				order, more = append(order, i), true
			}
		}
	}
	return order
}
