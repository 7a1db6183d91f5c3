// Command democrm simulates a partner's CRM against a running server, from outside and with the published contract
// only. It prints every step with its result, and exits with status 1 at the first deviation from the contract.
// "democrm serve" is the same CRM with a web interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
)

// sameInstallation explains the most common mistake.
const sameInstallation = "The partnerd command creates the application in the installation set by PARTNERD_DATA_DIR (default .data) and " +
	"PARTNERD_DATABASE_URL. Set both as for the server."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := serve(ctx, os.Args[2:]); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "democrm:", err)
			stop()
			os.Exit(1)
		}
		return
	}
	base := flag.String("base-url", "http://localhost:8080", "base URL of the service")
	partnerd := flag.String("partnerd", "bin/partnerd",
		"path of the partnerd command, which creates the demo application and serves if base-url does not respond")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Simulate a partner's CRM against the server at base-url and check every response. "+
			"Run democrm serve for a CRM with pages. "+sameInstallation+"\n\nFlags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := run(ctx, strings.TrimSuffix(*base, "/"), *partnerd); err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED:", err)
		os.Exit(1)
	}
	fmt.Println("\nPASSED: every response matched the contract.")
}

func run(ctx context.Context, base, partnerd string) error {
	end, err := ensureServer(ctx, base, partnerd)
	if err != nil {
		return err
	}
	defer end()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d := &demo{base: base, http: &http.Client{Timeout: 15 * time.Second}}
	d.callback = fmt.Sprintf("http://%s/callback", listener.Addr())
	if err := d.onboard(ctx, partnerd, fmt.Sprintf("http://%s/webhooks", listener.Addr())); err != nil {
		return err
	}
	d.receiver = crm.NewReceiver(d.app.WebhookSecret)
	server := &http.Server{Handler: d.receiver, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends when server is closed
	defer server.Close()
	return d.play(context.WithValue(ctx, oauth2.HTTPClient, crm.TokenClient(http.DefaultTransport)))
}

// ensureServer uses the server at base, or starts one for the duration of the demonstration.
func ensureServer(ctx context.Context, base, partnerd string) (end func(), err error) {
	if ready(ctx, base) {
		fmt.Println("Using the server at", base)
		return func() {}, nil
	}
	fmt.Println("No server at", base+"; starting one for this run.")
	cmd := exec.Command(partnerd, "serve")
	cmd.Env = append(os.Environ(), "PARTNERD_BASE_URL="+base, "PARTNERD_ADDR=127.0.0.1:"+port(base),
		"PARTNERD_LOG_LEVEL=warn")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ends when told to, not with the terminal's Ctrl-C
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", partnerd, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-exited
	}
	for !ready(ctx, base) {
		select {
		case err := <-exited:
			return nil, fmt.Errorf("%s serve exited: %w", partnerd, err)
		case <-ctx.Done():
			end()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return end, nil
}

func ready(ctx context.Context, base string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func port(base string) string {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		return "80"
	}
	return port
}

var errUnexpected = errors.New("does not match the contract")

// expect returns an error, which ends the demonstration, if ok is false.
func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: %s", errUnexpected, fmt.Sprintf(format, args...))
}
