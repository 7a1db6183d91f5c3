package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// The settings file applies below the command line; a profile applies above the environment.
func TestProfiles(t *testing.T) {
	const file = `{"base-url": "http://a", "client-id": "app_a", "profiles": {
		"live": {"base-url": "https://b", "client-id": "app_b"}, "empty": {}}}`
	t.Setenv("PARTNERCTL_CLIENT_ID", "app_env")
	for _, c := range []struct{ args, file, base, id, wrong string }{
		{args: "checklist", base: "http://a", id: "app_env"},
		{args: "checklist --profile live", base: "https://b", id: "app_b"},
		{args: "checklist --profile empty", base: "http://a", id: "app_env"},
		{args: "checklist --profile live --client-id app_c", base: "https://b", id: "app_c"},
		{args: "checklist --profile other", wrong: `no profile "other"; it has empty, live`},
		{args: "checklist", file: `{"profile": "x"}`, wrong: `no profile "x"; add it`},
	} {
		if c.file == "" {
			c.file = file
		}
		resolver, err := profiles(strings.NewReader(c.file))
		if err != nil {
			t.Fatal(err)
		}
		var x cli
		_, err = kong.Must(&x, kong.Vars{"version": "", "address": "http://default"}, kong.Resolvers(resolver)).
			Parse(strings.Fields(c.args))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.args, err)
			}
		} else if err != nil || x.BaseURL != c.base || x.ClientID != c.id {
			t.Errorf("%s: %s %s, %v", c.args, x.BaseURL, x.ClientID, err)
		}
	}
	for _, wrong := range []string{"", "[]", `{"profiles": []}`} {
		if _, err := profiles(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// Each script completes every command. The script for bash is run, the others where their shell is installed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	var c cli
	all := nodes(kong.Must(&c, kong.Vars{"version": "", "address": ""}).Model.Node, "")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var script strings.Builder
		writeCompletion(&script, shell, all)
		for _, word := range []string{"redeliver", "tail", "client-secret", "as-new"} {
			if !strings.Contains(script.String(), word) {
				t.Errorf("%s does not complete %s", shell, word)
			}
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Log("NOT CHECKED:", shell, "is not installed")
			continue
		}
		if out, err := exec.Command(path, "-n", "-c", script.String()).CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v %s", shell, err, out)
		}
		if shell != "bash" {
			continue
		}
		for line, want := range map[string]string{
			"lo": "logs", "logs ": "tail --help", "rotate cl": "client-secret", "redeliver --fr": "--from",
			"--json clients ": "list new delete", "completion ": "bash zsh fish", "lawyers new --com": "--competences",
		} {
			out, err := exec.Command(path, "-c", script.String()+`
				read -ra COMP_WORDS <<<"$1"; [[ $1 != *' ' ]] || COMP_WORDS+=("")
				COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _partnerctl; echo "${COMPREPLY[*]}"`, "bash", "partnerctl "+line).
				CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%q is completed by %s, not %s (%v)", line, out, want, err)
			}
		}
	}
}

// platform is a Platform API whose responses a test chooses.
func platform(t *testing.T, h http.HandlerFunc) *service {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &service{BaseURL: server.URL, ClientID: "app", ClientSecretFile: []byte("sk")}
}

// A response that is lost after the secret was rotated is asked for again, under the same key.
func TestALostResponseRotatesOnce(t *testing.T) {
	t.Parallel()
	var keys []string
	var bodies []string
	s := platform(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
		if len(keys) == 1 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"secret": "sk_new", "previousSecretUntil": "2026-06-02T08:30:00.000000Z"}`)
	})
	if err := (&rotateClientCmd{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || bodies[0] != bodies[1] ||
		!strings.Contains(bodies[0], `"overlapSeconds":86400`) {
		t.Errorf("%q %q", keys, bodies)
	}
}

// The whole range is queued, a page at a time; an error says how to continue.
func TestRedeliverTakesTheWholeRange(t *testing.T) {
	t.Parallel()
	var asked []map[string]any
	breaks := false
	s := platform(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, body)
		switch {
		case body["cursor"] == nil:
			fmt.Fprint(w, `{"count": 2, "nextCursor": "next"}`)
		case breaks:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"code": "INTERNAL", "message": "no"}`)
		default:
			fmt.Fprint(w, `{"count": 1, "nextCursor": null}`)
		}
	})
	var c redeliverCmd
	if err := c.From.UnmarshalText([]byte("2026-06-01T08:00:00Z")); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || asked[0]["from"] != "2026-06-01T08:00:00Z" || asked[0]["select"] != "FAILED" ||
		asked[1]["cursor"] != "next" || asked[0]["to"] != asked[1]["to"] {
		t.Errorf("%v", asked)
	}
	breaks = true
	if err := c.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "2 deliveries were queued") ||
		!strings.Contains(err.Error(), "--cursor=next") {
		t.Errorf("%v", err)
	}
	var m moment
	if err := m.UnmarshalText([]byte("3h")); err != nil || time.Since(time.Time(m)).Round(time.Minute) != 3*time.Hour {
		t.Errorf("3h is %v, %v", time.Time(m), err)
	}
	for _, wrong := range []string{"", "yesterday", "-3h", "2026-06-01"} {
		if err := m.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q is %v", wrong, time.Time(m))
		}
	}
}

// Each request is followed once, although polls overlap.
func TestTailShowsEachRequestOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var queries []string
	s := platform(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		queries = append(queries, r.URL.RawQuery)
		items := `{"id":"req_1","at":"2026-06-01T08:00:00Z"}`
		if len(queries) > 1 {
			items = `{"id":"req_2","at":"2026-06-01T08:00:01Z"},` + items
		}
		if len(queries) > 3 {
			stop()
		}
		fmt.Fprintf(w, `{"items": [%s], "nextCursor": null}`, items)
	})
	s.JSON = true
	out := captured(t, func() {
		if err := (&tailCmd{Last: 10, Every: time.Millisecond}).Run(ctx, s); err != nil {
			t.Error(err)
		}
	})
	if strings.Count(out, "req_1") != 1 || strings.Count(out, "req_2") != 1 ||
		strings.Index(out, "req_1") > strings.Index(out, "req_2") {
		t.Errorf("printed %s", out)
	}
	if !strings.Contains(queries[1], "from=2026-06-01T07%3A59%3A00Z") {
		t.Errorf("%q", queries)
	}
}

// captured returns what run prints. It replaces the standard output, so its test must not run in parallel.
func captured(t *testing.T, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdout
	os.Stdout = w
	run()
	os.Stdout = was
	_ = w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
