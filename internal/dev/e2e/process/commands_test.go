package process_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestCommandsWorkWithoutAServerAndBesideOne(t *testing.T) {
	t.Parallel()
	in := install(t)
	var first struct{ ClientID, ClientSecret, WebhookSecret string }
	in.ask(t, &first, "app", "create", "--json", "--name", "Before", "--redirect-uri", "https://crm.example/callback",
		"--redirect-uri", "http://localhost:9/callback")
	if !strings.HasPrefix(first.ClientID, "app_test_") || !strings.HasPrefix(first.ClientSecret, "sk_test_") ||
		!strings.HasPrefix(first.WebhookSecret, "whsec_test_") {
		t.Errorf("app create: %+v", first)
	}
	in.booksAgree(t)

	server := in.serve(t, freeAddress(t))
	partner := onboard(t, in, "http://localhost"+server.addr[strings.LastIndex(server.addr, ":"):], 0)
	if token := partner.link(t, partner.issuer); token.AccessToken == "" {
		t.Error("what a command created beside the server cannot be used immediately")
	}
	var lawyer, client struct{ ID string }
	in.ask(t, &lawyer, "lawyer", "create", "--json", "--email", "lawyer@firm.example", "--name", "Demo Lawyer",
		"--phone", "+33639980003", "--competence", "HOUSING", "--competence", "TAX", "--language", "FR",
		"--language", "EN")
	in.ask(t, &client, "client", "create", "--json", "--email", "Someone@Client.Example", "--password", password,
		"--name", "Zoé O’Neil")
	if !strings.HasPrefix(lawyer.ID, "law_") || !strings.HasPrefix(client.ID, "cli_") {
		t.Errorf("made %q and %q", lawyer.ID, client.ID)
	}
	db := in.database(t)
	if pairs := query(t, db, "SELECT competence || ' ' || language FROM lawyer_pairs WHERE lawyer_id = $1 ORDER BY 1",
		lawyer.ID); !slices.Equal(pairs, []string{"HOUSING EN", "HOUSING FR", "TAX EN", "TAX FR"}) {
		t.Errorf("the lawyer serves %v", pairs)
	}
	for table, columns := range map[string]string{"clients": "password_hash", "lawyers": "password_hash"} {
		if n := query(t, db, fmt.Sprintf("SELECT %s FROM %s WHERE %s LIKE '%%tests only%%'",
			columns, table, columns)); len(n) > 0 {
			t.Errorf("a password stands in %s", table)
		}
	}
	// Tests hash at reduced cost; the program does not.
	if hash := query(t, db, "SELECT password_hash FROM clients WHERE id = $1", client.ID); len(hash) != 1 ||
		!strings.HasPrefix(hash[0], "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the password is stored as %q", hash)
	}
	r := in.cli(t, "ledger", "verify")
	if r.code != 0 || !strings.Contains(r.stdout, "is consistent") {
		t.Errorf("ledger verify: %+v", r)
	}
	if r := in.cli(t, "migrate"); r.code != 0 {
		t.Errorf("migrate: %+v", r)
	}
	server.awaitStatus(t, "/readyz", http.StatusOK)
	server.terminate(t)
}

// everything counts the rows of all tables that the commands may write.
const everything = `SELECT format('%s applications, %s endpoints, %s clients, %s wallets, %s movements, %s lawyers, %s pairs',
	(SELECT count(*) FROM applications), (SELECT count(*) FROM webhook_endpoints), (SELECT count(*) FROM clients), (SELECT count(*) FROM wallets),
	(SELECT count(*) FROM ledger_transactions), (SELECT count(*) FROM lawyers), (SELECT count(*) FROM lawyer_pairs))`

func TestCommandsRefuseBadInputAndMakeNothing(t *testing.T) {
	t.Parallel()
	database := dbtest.URL(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+database)
	app := []string{"app", "create", "--json"}
	client := []string{"client", "create", "--json", "--password", password, "--name", "Demo Client"}
	lawyer := []string{"lawyer", "create", "--json", "--name", "Demo Lawyer", "--phone", "+33639980003"}
	var made struct{ ID string }
	in.ask(t, &made, append(slices.Clone(client), "--email", "taken@client.example", "--balance-cents", "500")...)
	adjust := []string{"wallet", "adjust", "--reason", "Test"}
	refund := []string{"wallet", "refund", "--reason", "Test"}
	history := []string{"app", "history"}
	in.ask(t, &struct{}{}, append(slices.Clone(lawyer), "--email", "taken@firm.example", "--competence", "TAX",
		"--language", "FR")...)
	db := connect(t, database)
	before := query(t, db, everything)
	for _, c := range []struct {
		base []string
		args string // separated by spaces
		want string // contained in the message
	}{
		{app, "--redirect-uri https://crm.example/cb", "--name"},
		{app, "--name X", "--redirect-uri"},
		{app, "--name X --redirect-uri not-absolute", "redirect"},
		{app, "--name X --redirect-uri http://crm.example/cb", "redirect"},
		{app, "--name X --redirect-uri https://crm.example/cb#part", "redirect"},
		{app, "--name X --redirect-uri https://me:pw@crm.example/cb", "redirect"},
		{app, "--name X --redirect-uri javascript:alert(1)", "redirect"},
		{app, "--name X --redirect-uri https://crm.example/cb --scope wallet:steal", "wallet:steal"},
		{app, "--name X --redirect-uri https://crm.example/cb --webhook-url ftp://crm.example", "webhook"},
		{app, "--name X --redirect-uri https://crm.example/cb --webhook-url nonsense", "webhook"},
		{app, "--name X --redirect-uri https://crm.example/cb --unknown", "unknown"},
		{client, "", "--email"},
		{client, "--email no-address", "not an email address"},
		{client, "--email TAKEN@client.example", "exists already"},
		{client, "--email a@client.example --phone 12", "phone"},
		{client, "--email a@client.example --phone-verified", "phone"},
		{client, "--email a@client.example --balance-cents -1", "balance"},
		{client, "--email a@client.example --balance-cents many", "balance"},
		{client, "--email a@client.example --balance-cents 99999999999", "balance"},
		{lawyer, "--email a@firm.example --language FR", "--competence"},
		{lawyer, "--email a@firm.example --competence TAX", "--language"},
		{lawyer, "--email a@firm.example --competence WIZARDRY --language FR", "WIZARDRY"},
		{lawyer, "--email a@firm.example --competence TAX --language XX", "XX"},
		{lawyer, "--email taken@firm.example --competence TAX --language FR", "another lawyer"},
		{lawyer, "--email a@firm.example --competence TAX --language FR --phone 12", "phone"},
		{app, "--name X --redirect-uri https://crm.example:99999/cb", "port"},
		{app, "--name X\x7fX --redirect-uri https://crm.example/cb", "U+007F"},
		{client, "--email a@client.example --name bad\xff", "UTF-8"},
		{adjust, "--amount-cents 1 --client nobody", `client "nobody" does not exist`},
		{adjust, "--amount-cents 0 --client " + made.ID, "must not be 0"},
		{adjust, "--amount-cents=-501 --client " + made.ID, "500 cents are available"},
		{adjust, "--amount-cents 100000001 --client " + made.ID, "at most 100000000"},
		{adjust, "--amount-cents 9223372036854775800 --client " + made.ID, "at most 100000000"},
		{adjust, "--amount-cents=-9223372036854775808 --client " + made.ID, "at most 100000000"},
		{adjust, "--amount-cents 1 --reason= --client " + made.ID, "reason"},
		{refund, "--client nobody", `client "nobody" does not exist`},
		{refund, "--amount-cents 0 --client " + made.ID, "must be positive"},
		{refund, "--amount-cents=-1 --client " + made.ID, "must be positive"},
		{refund, "--topup nothing --client " + made.ID, "no such top-up"},
		{refund, "--reason= --client " + made.ID, "reason"},
		{refund, "--client " + made.ID, "no unused top-up"},
		{history, "nothing --client " + made.ID, `no application "nothing"`},
		{[]string{"nothing"}, "", "nothing"},
	} {
		args := append(slices.Clone(c.base), strings.Fields(c.args)...)
		r := in.cli(t, args...)
		message := lastLines(r.stderr, 1)
		if r.code == 0 || !strings.Contains(strings.ToLower(message), strings.ToLower(c.want)) {
			t.Errorf("%s %q ended with %d: %s", c.base[0], c.args, r.code, r.stderr)
		}
		if strings.Contains(r.stderr, "VALIDATION_ERROR") || strings.Contains(r.stderr, "INSUFFICIENT_FUNDS") ||
			strings.Contains(r.stderr, "SQLSTATE") || strings.Contains(r.stderr, "goroutine") ||
			strings.Contains(r.stderr, password) {
			t.Errorf("%s %q is explained in words of the machine: %s", c.base[0], c.args, r.stderr)
		}
		if after := query(t, db, everything); after[0] != before[0] {
			t.Fatalf("%s %q left something behind: %s, was %s", c.base[0], c.args, after[0], before[0])
		}
	}
}

// TestCommandsDoNotMakeAnInstallationToLookAt: a command that inspects or operates in a wrong or missing folder says
// so. It creates neither keys nor a database there.
func TestCommandsDoNotMakeAnInstallationToLookAt(t *testing.T) {
	t.Parallel()
	bare, err := url.Parse(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	bare.Path = "/postgres"
	keys := []string{"PARTNERD_MASTER_KEY=unused", "PARTNERD_NOTE_PUBLIC_KEY=unused"}
	for name, c := range map[string]struct {
		env   []string
		names string // contained in the message
	}{
		"no private database": {nil, "PARTNERD_DATA_DIR"},
		"no keys":             {[]string{"PARTNERD_DATABASE_URL=" + dbtest.URL(t)}, "PARTNERD_DATA_DIR"},
		"database of others":  {append(keys, "PARTNERD_DATABASE_URL="+bare.String()), "PARTNERD_DATABASE_URL"},
	} {
		in := &installation{dir: filepath.Join(t.TempDir(), "data")}
		in.env = append([]string{"PATH=" + os.Getenv("PATH"), "PARTNERD_ENV=sandbox", "PARTNERD_DATA_DIR=" + in.dir},
			c.env...)
		for _, command := range []string{
			"ledger verify", "app list", "app show app_1", "wallet statement --client cli_1 --month 2026-03",
			"key list",
		} {
			r := in.cli(t, strings.Fields(command)...)
			if r.code == 0 || !strings.Contains(r.stderr, c.names) || strings.Contains(r.stderr, "SQLSTATE") {
				t.Errorf("%s, %s: %+v", name, command, r)
			}
		}
		if _, err := os.Stat(in.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the commands made the data folder (%v)", name, err)
		}
	}
}
