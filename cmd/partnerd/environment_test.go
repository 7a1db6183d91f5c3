package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// known returns the names of all settings.
func known(t *testing.T) []string {
	t.Helper()
	parser, err := kong.New(new(cli))
	if err != nil {
		t.Fatal(err)
	}
	return variables(parser.Model)
}

// TestAFileOfASettingIsRead checks that a file that nothing reads is not ignored silently.
func TestAFileOfASettingIsRead(t *testing.T) {
	t.Parallel()
	for entry, fault := range map[string]string{
		"PARTNERD_MASTER_KEY_FILE=/x": "", "PARTNERD_NOTE_PUBLIC_KEY_FILE=/x": "",
		"OTEL_EXPORTER_OTLP_HEADERS_FILE=/x": "", "PARTNERD_ADDR=x_FILE": "", "SSL_CERT_FILE=/x": "",
		"PARTNERD_MAIL_FROM_FILE=/x": "set PARTNERD_MAIL_FROM",
		"PARTNERD_MASTERKEY_FILE=/x": "did you mean PARTNERD_MASTER_KEY_FILE?",
		"PARTNERD_SOMETHING_FILE=/x": "no setting",
	} {
		err := checkFiles(known(t), []string{"HOME=/", entry})
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

// TestAMisspeltNameIsNoticed checks that an unknown name is reported with the most similar setting. Variables of other
// programs are ignored.
func TestAMisspeltNameIsNoticed(t *testing.T) {
	t.Parallel()
	for entry, meant := range map[string]string{
		"PARTNERD_DATABASE_ULR=x": "PARTNERD_DATABASE_URL", "PARTNERD_MASTERKEY=x": "PARTNERD_MASTER_KEY",
		"PARTNERD_LOGLEVEL=x": "PARTNERD_LOG_LEVEL", "PARTNERD_PORT=8080": "", "PARTNERD_URL=x": "",
		"PARTNERD_TELEPATHY_PROVIDER=x": "", "PARTNERD_=x": "",
	} {
		name, _, _ := strings.Cut(entry, "=")
		if got := unread(known(t), []string{"HOME=/", entry}); len(got) != 1 || got[0].Name != name ||
			got[0].Meant != meant {
			t.Errorf("%s: %+v", entry, got)
		}
	}
	others := []string{"HOME=/", "PARTNERCTL_BASE_URL=x", "partnerd_addr=x", "OTEL_SERVICE_NAME=x",
		"PARTNERD_SERVICE_HOST=10.0.0.1", "PARTNERD_SERVICE_PORT=80", "PARTNERD_SERVICE_PORT_HTTP=80",
		"PARTNERD_PORT=tcp://10.0.0.1:80", "PARTNERD_PORT_80_TCP=tcp://10.0.0.1:80",
		"PARTNERD_PORT_80_TCP_ADDR=10.0.0.1", "PARTNERD_SERVE_PORT_80_TCP_PORT=80"}
	for _, name := range known(t) {
		others = append(others, name+"=x")
	}
	if got := unread(known(t), others); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestAnEmptyVariableMeansTheDefault checks this for settings of every kind.
func TestAnEmptyVariableMeansTheDefault(t *testing.T) { // not parallel: the environment belongs to the whole process
	names := known(t)
	parse := func() cli {
		var c cli
		parser, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"doctor"}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, name := range names {
		t.Setenv(name, "") // so that it is restored
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	want := parse().Config
	for _, name := range names {
		t.Setenv(name, "")
	}
	dropEmpty(names)
	got := parse().Config
	if *got.PhoneCodes != 5000 || *got.PhoneCodes != *want.PhoneCodes ||
		*got.WebhookRetention != *want.WebhookRetention || got.Addr != want.Addr || got.RateClient != want.RateClient ||
		got.LogFormat != want.LogFormat || got.WebhookLoopback != nil || got.MailFrom != want.MailFrom ||
		got.DataDir != want.DataDir {
		t.Errorf("%+v", got)
	}
	t.Setenv("PARTNERD_PHONE_CODES", "0")
	dropEmpty(names)
	if c := parse().Config; *c.PhoneCodes != 0 || c.Check() == nil ||
		!strings.Contains(c.Check().Error(), "PARTNERD_PHONE_CODES: 0 is not between 1 and 10000000") {
		t.Errorf("%d: %v", *c.PhoneCodes, c.Check())
	}
}
