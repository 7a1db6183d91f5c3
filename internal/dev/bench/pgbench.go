package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	pgbenchScale   = 10
	pgbenchSeconds = 5
)

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

// PGBench returns the transactions/s of pgbench's built-in script (TPC-B like, scale 10, 5 s) with that many clients.
// It measures once per run.
func (e *Env) PGBench(ctx context.Context, clients int) (float64, error) {
	if tps, ok := e.reference[clients]; ok {
		return tps, nil
	}
	program, err := pgbenchProgram()
	if err != nil {
		return 0, err
	}
	const database = "bench_pgbench"
	// Older pgbench versions do not know require_auth.
	address := strings.Replace(e.cluster.LocalURL(database), "&require_auth=scram-sha-256", "", 1)
	if len(e.reference) == 0 {
		if err := e.admin(ctx, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)",
			"CREATE DATABASE "+database); err != nil {
			return 0, err
		}
		if out, err := exec.CommandContext(ctx, program, "-i", "-q", "-s", strconv.Itoa(pgbenchScale), address).
			CombinedOutput(); err != nil {
			return 0, fmt.Errorf("fill pgbench: %w: %s", err, out)
		}
	}
	out, err := exec.CommandContext(ctx, program, "-n", "-c", strconv.Itoa(clients), "-j", "2", "-T",
		strconv.Itoa(pgbenchSeconds), address).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w: %s", err, out)
	}
	m := tpsLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("read pgbench: %s", out)
	}
	tps, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("read pgbench: %w", err)
	}
	e.reference[clients] = tps
	return tps, nil
}

func pgbenchProgram() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if len(found) == 0 {
		return "", errors.New("no pgbench on this machine")
	}
	return slices.Max(found), nil
}
