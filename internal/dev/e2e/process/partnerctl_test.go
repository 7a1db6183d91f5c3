package process_test

import (
	"context"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"partnerd/cmd/democrm/crm"
)

// command is a command of the partner, who knows only the service's address and their own credentials.
func (p *partner) command(ctx context.Context, base string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, partnersBinary, args...)
	cmd.Env = []string{"PARTNERCTL_BASE_URL=" + base, "PARTNERCTL_CLIENT_ID=" + p.app.ClientID,
		"PARTNERCTL_CLIENT_SECRET=" + p.app.ClientSecret}
	return cmd
}

// ctl runs a command to its end and returns its output.
func (p *partner) ctl(t *testing.T, base string, succeeds bool, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	out, err := p.command(ctx, base, args...).CombinedOutput()
	if (err == nil) != succeeds {
		t.Fatalf("partnerctl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestAPartnerWorksFromAShell: a partner manages webhooks from a shell, and receives events on a machine that the
// service cannot reach.
func TestAPartnerWorksFromAShell(t *testing.T) {
	t.Parallel()
	in := install(t)
	server := in.serve(t, freeAddress(t))
	base := strings.Replace(server.url, "127.0.0.1", "localhost", 1)
	p := onboard(t, in, base, 10_000)

	local := crm.NewReceiver("whsec_of_this_machine")
	atHome := httptest.NewServer(local)
	t.Cleanup(atHome.Close)
	secret := file(t, "whsec_of_this_machine\n")
	listen := p.command(t.Context(), base, "listen", "--forward", atHome.URL, "--webhook-secret-file", secret,
		"--every", "100ms")
	var heard transcript
	listen.Stdout, listen.Stderr = &heard, &heard
	if err := listen.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, deadline, func() bool { return strings.Contains(heard.String(), "Waiting for events") }, heard.String)

	triggered := p.ctl(t, base, true, "trigger", "consultation.completed")
	delivery := regexp.MustCompile(`dlv_\w+`).FindString(triggered)
	await(t, deadline, func() bool { return strings.Contains(heard.String(), "→ 204") }, heard.String)
	if refused := local.Refused(); len(refused) > 0 {
		t.Errorf("the receiver at home refused %v", refused)
	}
	if err := listen.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := listen.Wait(); err != nil {
		t.Errorf("listen ended with %v: %s", err, heard.String())
	}

	await(t, deadline,
		func() bool { return strings.Contains(p.ctl(t, base, true, "deliveries", delivery), "DELIVERED") },
		func() string { return "not delivered" })
	for _, c := range []struct {
		succeeds bool
		args     []string
		want     string
	}{
		{true, []string{"deliveries", delivery}, "attempt 1"},
		{true, []string{"deliveries", "--state", "DELIVERED"}, "consultation.completed"},
		{true, []string{"events"}, "Next page: --after="},
		{true, []string{"resend", delivery}, "Queued"},
		{true, []string{"endpoint"}, p.app.RedirectURI[:strings.LastIndex(p.app.RedirectURI, "/")] + "/webhooks"},
		{true, []string{"checklist"}, "The endpoint has not been checked"},
		{true, []string{"clock", "1h"}, "advanced by 1h0m"},
		{true, []string{"clock", "60"}, "advanced by 1m"},
		{true, []string{"redeliver", "--from", "1h", "--all"}, "queued"},
		{true, []string{"clients", "new", "Ada", "--phone", "--balance-cents", "4000"}, "phone verified"},
		{true, []string{"clients"}, "Ada"},
		{true, []string{"rotate", "client-secret"}, "sk_test_"},
		{false, []string{"rotate", "client-secret"}, "409 "},
		{true, []string{"completion", "bash"}, "complete -o default -F _partnerctl partnerctl"},
		{true, []string{"examine"}, "PASSED"},
		{true, []string{"--json", "examine"}, `"passed":true`},
		{false, []string{"trigger", "nothing"}, "422 VALIDATION_ERROR"},
		{false, []string{"resend", "dlv_of_somebody_else"}, "404 NOT_FOUND"},
		{false, []string{"--client-id", "somebody", "events"}, "401 UNAUTHORIZED"},
		{false, []string{"--client-id", "", "events"}, "PARTNERCTL_CLIENT_ID"},
	} {
		if got := p.ctl(t, base, c.succeeds, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("partnerctl %q printed\n%s\nwithout %q", c.args, got, c.want)
		}
	}
	client := regexp.MustCompile(`Ada.* (\w+)\n`).FindStringSubmatch(p.ctl(t, base, true, "clients"))[1]
	if got := p.ctl(t, base, true, "link", client); !strings.Contains(got, "access_token") {
		t.Errorf("link printed %s", got)
	}
	tail := p.command(t.Context(), base, "logs", "tail", "--last", "100", "--every", "100ms")
	var followed transcript
	tail.Stdout, tail.Stderr = &followed, &followed
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, deadline, func() bool { return strings.Contains(followed.String(), "VALIDATION_ERROR") }, followed.String)
	if err := tail.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := tail.Wait(); err != nil {
		t.Errorf("logs tail ended with %v: %s", err, followed.String())
	}
	await(t, deadline, func() bool {
		return strings.Contains(p.ctl(t, base, true, "requests", "--refused"), "VALIDATION_ERROR")
	}, func() string { return "the refusal is not logged" })
	line := regexp.MustCompile(`VALIDATION_ERROR.*(req_\w+)`).
		FindStringSubmatch(p.ctl(t, base, true, "requests", "--refused"))
	if got := p.ctl(t, base, true, "requests", line[1]); !strings.Contains(got, "type: ") {
		t.Errorf("the request does not say what was wrong: %s", got)
	}

	// The receiver is checked from here, including a sandbox consultation at the end.
	token := p.link(t, base)
	conform := []string{"conform", "--receiver", p.receiverURL(), "--webhook-secret-file", file(t, p.app.WebhookSecret),
		"--format", "junit", "--service", base, "--token-file", file(t, token.AccessToken), "--application",
		p.app.ClientID, "--client-secret-file", file(t, p.app.ClientSecret)}
	sheet := p.ctl(t, base, true, conform...)
	var suite struct {
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(sheet), &suite); err != nil || suite.Failures != 0 ||
		suite.Cases[len(suite.Cases)-1].Name != "life" {
		t.Errorf("%v, the sheet is %s", err, sheet)
	}
	careless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(careless.Close)
	if got := p.ctl(t, base, false, "conform", "--receiver", careless.URL,
		"--webhook-secret-file", secret); !strings.Contains(got, "the endpoint failed these checks: unsigned, ") {
		t.Errorf("a receiver that verifies nothing: %s", got)
	}
	if got := in.cli(t, "conform", "--receiver", careless.URL, "--webhook-secret-file", secret); got.code != 1 ||
		!strings.Contains(got.stderr, "the endpoint failed these checks") {
		t.Errorf("partnerd conform ended with %d: %s", got.code, got.stderr)
	}
}

func (p *partner) receiverURL() string {
	return strings.TrimSuffix(p.app.RedirectURI, "/callback") + "/webhooks"
}

// file writes a secret to a file for a command.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
