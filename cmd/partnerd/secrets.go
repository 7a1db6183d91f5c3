package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"
)

// secretFlags maps each flag with a secret value to the environment variable read for it. Of a flag with a URL, only a
// URL with credentials is secret. Every local user can read the command line of a process.
var secretFlags = map[string]secretFlag{
	"password":              {},
	"master-key":            {variable: "PARTNERD_MASTER_KEY"},
	"note-public-key":       {variable: "PARTNERD_NOTE_PUBLIC_KEY", url: public},
	"metrics-token":         {variable: "PARTNERD_METRICS_TOKEN"},
	"stripe-secret-key":     {variable: "PARTNERD_STRIPE_SECRET_KEY"},
	"twilio-auth-token":     {variable: "PARTNERD_TWILIO_AUTH_TOKEN"},
	"twilio-api-key":        {variable: "PARTNERD_TWILIO_API_KEY"},
	"twilio-url":            {variable: "PARTNERD_TWILIO_URL", url: withUser},
	"twilio-api-secret":     {variable: "PARTNERD_TWILIO_API_SECRET"},
	"stripe-webhook-secret": {variable: "PARTNERD_STRIPE_WEBHOOK_SECRET"},
	"database-url":          {variable: "PARTNERD_DATABASE_URL", url: withPassword},
	"database-owner-url":    {variable: "PARTNERD_DATABASE_OWNER_URL", url: withPassword},
	"lost-database-url":     {url: withPassword},
	"database-pooler-url":   {variable: "PARTNERD_DATABASE_POOLER_URL", url: withPassword},
	"valkey-url":            {variable: "PARTNERD_VALKEY_URL", url: withPassword},
	"otlp-headers":          {variable: "OTEL_EXPORTER_OTLP_HEADERS"},
	"otlp-traces-headers":   {variable: "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
	"otlp-metrics-headers":  {variable: "OTEL_EXPORTER_OTLP_METRICS_HEADERS"},
	"mail-server":           {variable: "PARTNERD_MAIL_SERVER", url: withUser},
	"sms-server":            {variable: "PARTNERD_SMS_SERVER", url: withUser},
	"webhook-proxy":         {variable: "PARTNERD_WEBHOOK_PROXY", url: withUser},
}

type secretFlag struct {
	variable string
	url      secretURL
}

// alone rejects a line as the key commands print it, NAME=value, where only the value is wanted.
func (f secretFlag) alone(value string) error {
	if f.variable != "" && strings.HasPrefix(value, f.variable+"=") {
		return fmt.Errorf("the value begins with %s=; give only what follows it", f.variable)
	}
	return nil
}

// withSecrets returns the arguments with secrets filled in from their permitted sources. These are --NAME-file FILE,
// --NAME - for a line of standard input, and the file named by PARTNERD_NAME_FILE. A secret given as an argument is
// rejected.
func withSecrets(args []string, getenv func(string) string, in io.Reader) ([]string, error) {
	lines := bufio.NewReader(in)
	given := map[string]bool{}
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			out = append(out, args[i:]...)
			break
		}
		flag, value, inline := strings.Cut(args[i], "=")
		name, file := strings.CutSuffix(strings.TrimPrefix(flag, "--"), "-file")
		known, secret := secretFlags[name]
		if !secret || !strings.HasPrefix(flag, "--") {
			out = append(out, args[i])
			continue
		}
		if !inline {
			if i++; i == len(args) {
				return nil, fmt.Errorf("%s: the value is missing", flag)
			}
			value = args[i]
		}
		var err error
		switch {
		case file:
			value, err = secretFile(value)
		case value == "-":
			value, err = secretLine(lines)
		case known.url == nil || known.url(value):
			err = errors.New("a secret on the command line can be read by every user " +
				"of this machine; " + instead(name, known.variable))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if err := known.alone(value); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		given[name] = true
		out = append(out, "--"+name+"="+value)
	}
	for name, known := range secretFlags {
		path := ""
		if known.variable != "" && !given[name] && getenv(known.variable) == "" {
			path = getenv(known.variable + "_FILE")
		}
		if path == "" {
			continue
		}
		value, err := secretFile(path)
		if err == nil {
			err = known.alone(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s_FILE: %w", known.variable, err)
		}
		out = append([]string{"--" + name + "=" + value}, out...)
	}
	return out, nil
}

func instead(name, variable string) string {
	ways := "use --" + name + "-file FILE, or --" + name + " - to read a line of standard input"
	if variable != "" {
		return ways + ", or set " + variable + " or " + variable + "_FILE"
	}
	return ways + ", or omit it to be prompted"
}

// secretURL reports whether a URL holds a secret. Both implementations return true for an unreadable URL, because it
// may hold one.
type secretURL func(raw string) bool

// public is for values that are stored with secrets but are not secret.
func public(string) bool { return false }

// withPassword is for database URLs, whose user is not a secret.
func withPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return raw != ""
	}
	for key := range u.Query() {
		if strings.HasSuffix(strings.ToLower(key), "password") {
			return true
		}
	}
	_, set := u.User.Password()
	return set
}

// withUser is for other URLs, whose user may be a token.
func withUser(raw string) bool {
	u, err := url.Parse(raw)
	return raw != "" && (err != nil || u.Scheme == "" || u.User != nil)
}

func secretFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return oneSecret(string(b))
}

func secretLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return oneSecret(line)
}

func oneSecret(text string) (string, error) {
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return "", errors.New("the value is empty")
	}
	return text, nil
}

// askPassword returns the given password, or one typed twice, hidden, at a terminal.
func askPassword(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("a password is required: " + instead("password", ""))
	}
	var typed [2][]byte
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(os.Stderr, prompt)
		var err error
		typed[i], err = term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
	}
	if !bytes.Equal(typed[0], typed[1]) {
		return "", errors.New("the passwords do not match")
	}
	return string(typed[0]), nil
}
