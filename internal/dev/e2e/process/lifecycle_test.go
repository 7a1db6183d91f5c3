package process_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
)

// nobody is the account of a service without privileges.
const nobody = 65534

// TestFirstStart starts on an empty data folder under the account of the test and, if permitted, under another one.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	accounts := map[string]*syscall.Credential{"own account": nil}
	if os.Geteuid() == 0 {
		accounts["nobody"] = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	for name, cred := range accounts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t)
			in.cred = cred
			in.env = slices.DeleteFunc(in.env, func(s string) bool { return strings.HasPrefix(s, "HOME=") })
			if cred != nil {
				openTo(t, in, cred)
			}
			server := in.serve(t, freeAddress(t))
			for _, want := range []string{server.addr[strings.LastIndex(server.addr, ":"):], "/docs", "demo.json"} {
				// It responds before it has printed everything.
				await(t, 10*time.Second, func() bool { return strings.Contains(server.welcome.String(), want) },
					func() string {
						return fmt.Sprintf("the welcome does not name %q:\n%s", want, server.welcome.String())
					})
			}
			var demo struct{ ClientSecret, WebhookSecret, ClientPassword string }
			if raw, err := os.ReadFile(filepath.Join(in.dir, "demo.json")); err != nil ||
				json.Unmarshal(raw, &demo) != nil {
				t.Error(err)
			}
			// The output is not a terminal, so no secret is printed.
			for _, secret := range []string{demo.ClientSecret, demo.WebhookSecret, demo.ClientPassword} {
				if secret == "" || strings.Contains(server.welcome.String(), secret) {
					t.Errorf("the secret %q is printed into a log", secret)
				}
			}
			wantPrivate(t, in.dir)
			in.booksAgree(t)
			server.terminate(t)
			if out := server.output.String(); out != "" {
				t.Errorf("warnings:\n%s", out)
			}
		})
	}
}

// openTo gives the data folder's parent to another account, because test folders are closed to others.
func openTo(t *testing.T, in *installation, cred *syscall.Credential) {
	t.Helper()
	parent, err := os.MkdirTemp("", "partnerd-first-start-*")
	if err != nil {
		t.Fatal(err)
	}
	old := in.dir
	in.dir = filepath.Join(parent, "data")
	for i, s := range in.env {
		in.env[i] = strings.ReplaceAll(s, old, in.dir)
	}
	t.Cleanup(func() {
		in.stopDatabase(t)
		if err := os.RemoveAll(parent); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(parent, int(cred.Uid), int(cred.Gid)); err != nil {
		t.Fatal(err)
	}
}

// wantPrivate asserts that every secret in the data folder is closed to other accounts.
func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{
		"demo.json", "keys", "keys/master.key", "keys/note-private.key", "postgres/password", "postgres/data",
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	in, addr := install(t), freeAddress(t)
	base := "PARTNERD_BASE_URL=http://" + addr
	server := in.serve(t, addr, base)
	partner := onboard(t, in, server.url, 10_000)
	token := partner.link(t, server.url).AccessToken
	made := create(t.Context(), server.url, token, request{rand.Text(), "IP", "PT"})
	if made.status != http.StatusCreated {
		t.Fatalf("create: %d %s", made.status, made.body)
	}
	wallet := get(t, server.url+"/api/v1/wallet", token)
	demo, err := os.ReadFile(filepath.Join(in.dir, "demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	server.terminate(t)

	server = in.serve(t, addr, base)
	if x := get(t, server.url+"/api/v1/consultations/"+made.consultation(t).ID, token); x.status != http.StatusOK ||
		!bytes.Equal(bytes.TrimSpace(x.body), bytes.TrimSpace(made.body)) {
		t.Errorf("the consultation after the restart: %d %s, was %s", x.status, x.body, made.body)
	}
	if x := get(t, server.url+"/api/v1/wallet", token); string(x.body) != string(wallet.body) {
		t.Errorf("the wallet after the restart: %s, was %s", x.body, wallet.body)
	}
	again, err := os.ReadFile(filepath.Join(in.dir, "demo.json"))
	if err != nil || string(again) != string(demo) {
		t.Errorf("the demonstration's credentials changed (%v)", err)
	}
	server.terminate(t)
}

func TestSecondServerOnThePortLeavesTheFirstAlone(t *testing.T) {
	t.Parallel()
	in, addr := install(t), freeAddress(t)
	first := in.serve(t, addr)
	second := in.spawn(t, addr)
	second.awaitEnd(t)
	if code := second.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(second.output.String(),
		"address already in use") {
		t.Errorf("ended with %d: %s", code, second.output.String())
	}
	first.awaitStatus(t, "/readyz", http.StatusOK)
	in.booksAgree(t)
	first.awaitStatus(t, "/readyz", http.StatusOK)
	first.terminate(t)
}

// TestTerminateFinishesRequests begins a request, asks the process to end, and sends the rest.
func TestTerminateFinishesRequests(t *testing.T) {
	t.Parallel()
	in, addr := install(t), freeAddress(t)
	base := "PARTNERD_BASE_URL=http://" + addr
	server := in.serve(t, addr, base)
	partner := onboard(t, in, server.url, 10_000)
	token := partner.link(t, server.url).AccessToken

	const body = `{"competence":"IP","language":"PT","subject":"Slow line","withdrawalWaiverAcknowledged":true}`
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v1/consultations HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
		addr, token, rand.Text(), len(body))
	proceed := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, proceed); err != nil { // the handler is now reading the body
		t.Fatalf("%q: %v", proceed, err)
	}
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, deadline, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, func() string { return "the port stays open" })
	fmt.Fprint(conn, body)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201 ") {
		t.Errorf("the response to the request under way was %q (%v)", answer, err)
	}
	server.awaitEnd(t)
	if server.err != nil {
		t.Errorf("ended with %v: %s", server.err, server.output.String())
	}
	in.booksAgree(t)
	db := in.database(t)
	if n := query(t, db, "SELECT count(*)::text FROM consultations"); n[0] != "1" {
		t.Errorf("%s consultations", n[0])
	}
}

// TestTerminateIsToldToTheBalancerFirst: a terminating process first reports that it is not ready, and still serves
// requests until the balancer reacts.
func TestTerminateIsToldToTheBalancerFirst(t *testing.T) {
	t.Parallel()
	in, addr := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+dbtest.URL(t), "PARTNERD_DRAIN_DELAY=5m"),
		freeAddress(t)
	server := in.serve(t, addr)
	if x := get(t, server.url+"/healthz", ""); x.status != http.StatusOK || x.header.Get("Connection") == "close" {
		t.Errorf("before: %d %v", x.status, x.header)
	}
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	server.awaitStatus(t, "/readyz", http.StatusServiceUnavailable)
	for path, want := range map[string]int{
		"/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusOK, "/.well-known/jwks.json": http.StatusOK,
	} {
		resp, err := http.Get(server.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%s while it ends: %s, and the connection closes: %t", path, resp.Status, resp.Close)
		}
	}
	server.kill()
}

func TestServeRefusesAWrongSetting(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]string{
		"PARTNERD_ADDR":             "PARTNERD_ADDR=nowhere",
		"PARTNERD_BASE_URL":         "PARTNERD_BASE_URL=ftp://x",
		"database":                  "PARTNERD_ENV=sandbox PARTNERD_DATABASE_URL=postgres://nobody@127.0.0.1:1/none?sslmode=disable",
		"--env":                     "PARTNERD_ENV=production",
		"PARTNERD_ENV":              "PARTNERD_DATABASE_URL=postgres://nobody@127.0.0.1:1/none?sslmode=disable",
		"PARTNERD_RATE_APPLICATION": "PARTNERD_RATE_APPLICATION=0",
		"master key":                "PARTNERD_MASTER_KEY=short",
		"PARTNERD_VALKEY_URL":       "PARTNERD_VALKEY_URL=http://127.0.0.1:1",
		"PARTNERD_DRAIN_DELAY":      "PARTNERD_DRAIN_DELAY=6m",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			in := install(t, strings.Fields(env)...)
			r := in.cli(t, "serve")
			if r.code == 0 || !strings.Contains(strings.ToLower(r.stderr), strings.ToLower(want)) {
				t.Errorf("ended with %d: %s", r.code, lastLines(r.stderr, 3))
			}
			if strings.Contains(r.stderr, "panic") || strings.Contains(r.stderr, "goroutine") {
				t.Error(r.stderr)
			}
		})
	}
}
