package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A secret comes from a file, standard input or the environment, and never from the command line.
func TestSecretsAreNotTakenFromTheCommandLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		env   map[string]string
		stdin string
		want  []string
		fault string
	}{
		"none":                 {args: []string{"serve", "--addr", "x"}, want: []string{"serve", "--addr", "x"}},
		"from a file":          {args: []string{"client", "create", "--password-file", file, "--json"}, want: []string{"client", "create", "--password=from file", "--json"}},
		"from a file, inline":  {args: []string{"--master-key-file=" + file}, want: []string{"--master-key=from file"}},
		"from standard input":  {args: []string{"--password", "-"}, stdin: "a b\nrest", want: []string{"--password=a b"}},
		"two lines":            {args: []string{"--password=-", "--ops-password", "-"}, stdin: "one\ntwo", want: []string{"--password=one", "--ops-password=two"}},
		"variable of a file":   {args: []string{"serve"}, env: map[string]string{"PARTNERD_MASTER_KEY_FILE": file}, want: []string{"--master-key=from file", "serve"}},
		"variable first":       {args: []string{"serve"}, env: map[string]string{"PARTNERD_MASTER_KEY_FILE": file, "PARTNERD_MASTER_KEY": "k"}, want: []string{"serve"}},
		"URL without password": {args: []string{"--database-url", "postgres://me@localhost/db"}, want: []string{"--database-url=postgres://me@localhost/db"}},
		"after the end":        {args: []string{"x", "--", "--password", "p"}, want: []string{"x", "--", "--password", "p"}},
		"password":             {args: []string{"--password", "hunter2"}, fault: "--password-file FILE"},
		"password, inline":     {args: []string{"--password=hunter2"}, fault: "leave it out to be asked"},
		"master key":           {args: []string{"--master-key", "hunter2"}, fault: "PARTNERD_MASTER_KEY_FILE"},
		"operators' password":  {args: []string{"--ops-password=hunter2"}, fault: "PARTNERD_OPS_PASSWORD"},
		"Stripe":               {args: []string{"--stripe-secret-key=hunter2"}, fault: "can be read by every user"},
		"URL with password":    {args: []string{"--database-url", "postgres://me:hunter2@localhost/db"}, fault: "PARTNERD_DATABASE_URL"},
		"no URL":               {args: []string{"--database-url", "host=localhost password=hunter2"}, fault: "PARTNERD_DATABASE_URL"},
		"mail server":          {args: []string{"--mail-server=smtp://me:hunter2@mail.example:587"}, fault: "PARTNERD_MAIL_SERVER"},
		"empty input":          {args: []string{"--password", "-"}, fault: "nothing to read"},
		"no value":             {args: []string{"--password"}, fault: "missing"},
		"no file":              {args: []string{"--password-file", file + ".not"}, fault: "no such file"},
	} {
		got, err := withSecrets(c.args, func(v string) string { return c.env[v] }, strings.NewReader(c.stdin))
		if c.fault == "" && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
}

// A setting whose value is a secret, or may hold one, must be listed.
func TestEverySecretSettingIsListed(t *testing.T) {
	t.Parallel()
	for flag, s := range secretFlags {
		if want := "PARTNERD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")); s.variable != "" && s.variable != want {
			t.Errorf("%s is set by %s", flag, s.variable)
		}
	}
}
