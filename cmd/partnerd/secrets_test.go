package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestSecretsAreNotTakenFromTheCommandLine checks that a secret comes from a file, standard input or the environment,
// and never from the command line.
func TestSecretsAreNotTakenFromTheCommandLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if err := os.WriteFile(whole, []byte("PARTNERD_MASTER_KEY=hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		env   map[string]string
		stdin string
		want  []string
		fault string
	}{
		"none": {args: []string{"serve", "--addr", "x"}, want: []string{"serve", "--addr", "x"}},
		"from a file": {args: []string{"client", "create", "--password-file", file, "--json"},
			want: []string{"client", "create", "--password=from file", "--json"}},
		"from a file, inline": {args: []string{"--master-key-file=" + file}, want: []string{"--master-key=from file"}},
		"from standard input": {args: []string{"--password", "-"}, stdin: "a b\nrest",
			want: []string{"--password=a b"}},
		"two lines": {args: []string{"--password=-", "--metrics-token", "-"}, stdin: "one\ntwo",
			want: []string{"--password=one", "--metrics-token=two"}},
		"variable of a file": {args: []string{"serve"}, env: map[string]string{"PARTNERD_MASTER_KEY_FILE": file},
			want: []string{"--master-key=from file", "serve"}},
		"variable first": {args: []string{"serve"}, env: map[string]string{"PARTNERD_MASTER_KEY_FILE": file,
			"PARTNERD_MASTER_KEY": "k"}, want: []string{"serve"}},
		"URL without password": {args: []string{"--database-url", "postgres://me@localhost/db"},
			want: []string{"--database-url=postgres://me@localhost/db"}},
		"a whole line": {args: []string{"serve"}, env: map[string]string{"PARTNERD_MASTER_KEY_FILE": whole},
			fault: "only what follows"},
		"a whole line, typed": {args: []string{"--master-key", "-"}, stdin: "PARTNERD_MASTER_KEY=hunter2\n",
			fault: "only what follows"},
		"a public key": {args: []string{"--note-public-key", "k"}, want: []string{"--note-public-key=k"}},
		"its file": {args: []string{"serve"}, env: map[string]string{"PARTNERD_NOTE_PUBLIC_KEY_FILE": file},
			want: []string{"--note-public-key=from file", "serve"}},
		"after the end": {args: []string{"x", "--", "--password", "p"},
			want: []string{"x", "--", "--password", "p"}},
		"password":         {args: []string{"--password", "hunter2"}, fault: "--password-file FILE"},
		"password, inline": {args: []string{"--password=hunter2"}, fault: "omit it to be prompted"},
		"master key":       {args: []string{"--master-key", "hunter2"}, fault: "PARTNERD_MASTER_KEY_FILE"},
		"metrics":          {args: []string{"--metrics-token=hunter2"}, fault: "PARTNERD_METRICS_TOKEN"},
		"Stripe":           {args: []string{"--stripe-secret-key=hunter2"}, fault: "can be read by every user"},
		"URL with password": {args: []string{"--database-url", "postgres://me:hunter2@localhost/db"},
			fault: "PARTNERD_DATABASE_URL"},
		"no URL": {args: []string{"--database-url", "host=localhost password=hunter2"},
			fault: "PARTNERD_DATABASE_URL"},
		"other password": {args: []string{"--database-url", "postgres://me@localhost/db?sslpassword=hunter2"},
			fault: "PARTNERD_DATABASE_URL"},
		"token of a user": {args: []string{"--sms-server=https://hunter2@sms.example"},
			fault: "PARTNERD_SMS_SERVER"},
		"server without user": {args: []string{"--mail-server=smtp://mail.example:25"},
			want: []string{"--mail-server=smtp://mail.example:25"}},
		"mail server": {args: []string{"--mail-server=smtp://me:hunter2@mail.example:587"},
			fault: "PARTNERD_MAIL_SERVER"},
		"empty input": {args: []string{"--password", "-"}, fault: "the value is empty"},
		"no value":    {args: []string{"--password"}, fault: "missing"},
		"no file":     {args: []string{"--password-file", file + ".not"}, fault: "no such file"},
	} {
		got, err := withSecrets(c.args, func(v string) string { return c.env[v] }, strings.NewReader(c.stdin))
		if c.fault == "" && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault) ||
			strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
}

// TestEverySecretSettingIsListed checks that a flag is listed if its value is, or may contain, a secret: those named
// like a secret, or like a URL with credentials.
func TestEverySecretSettingIsListed(t *testing.T) {
	t.Parallel()
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	public := []string{"note-public-key", "base-url", "url", "webhook-url"} // shown to others
	found := map[string]bool{}
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		f, ok := node.(*kong.Flag)
		if !ok {
			return next(nil)
		}
		known, listed := secretFlags[f.Name]
		if listed {
			found[f.Name] = true
			if variable := strings.Join(f.Envs, " "); variable != known.variable {
				t.Errorf("--%s is set by %q, not by %q", f.Name, variable, known.variable)
			}
		}
		named := secretName.MatchString(f.Name) || addressName.MatchString(f.Name) || strings.Contains(f.Help, "@host")
		if named && f.Target.Kind() == reflect.String && !listed && !slices.Contains(public, f.Name) {
			t.Errorf("--%s may hold a secret, and is not listed", f.Name)
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range secretFlags {
		if !found[name] {
			t.Errorf("--%s is listed, and there is none", name)
		}
	}
}

var (
	secretName  = regexp.MustCompile(`password|secret|token|key|credential`)
	addressName = regexp.MustCompile(`-?(url|server|proxy|dsn)$`)
)
