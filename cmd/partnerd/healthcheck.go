package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"partnerd/internal/app/config"
)

const healthTimeout = 4 * time.Second

// healthcheckCmd probes a process on this machine as its orchestrator would. It needs no other program in the image.
type healthcheckCmd struct {
	Of string `arg:"" optional:"" enum:"serve,work" default:"serve" help:"Process to check: serve (at PARTNERD_ADDR) or work (at PARTNERD_METRICS_ADDR). Default: serve."`
}

// Run implements the command.
func (c *healthcheckCmd) Run(ctx context.Context, cfg *config.Config) error {
	address := cfg.Addr
	if c.Of == "work" {
		address = cfg.MetricsAddr
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("cannot check partnerd work: set PARTNERD_METRICS_ADDR")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return ready(ctx, "http://"+net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)+"/readyz")
}

func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", url, response.Status)
	}
	return nil
}
