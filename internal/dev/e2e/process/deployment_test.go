package process_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inLive turns the data folder into that of a live deployment.
func inLive(t *testing.T, in *installation) *installation {
	t.Helper()
	var keys struct{ MasterKey, NotePublicKey string }
	in.ask(t, &keys, "key", "generate", "--json")
	live := *in
	live.env = append(slices.Clone(in.env), "PARTNERD_ENV=live", "PARTNERD_BASE_URL=http://localhost:8080",
		"PARTNERD_MASTER_KEY="+keys.MasterKey, "PARTNERD_NOTE_PUBLIC_KEY="+keys.NotePublicKey)
	return &live
}

// TestCommandsKeepToTheirEnvironment: no command of one environment touches the private database of the other.
func TestCommandsKeepToTheirEnvironment(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"live", "sandbox"} {
		t.Run(own, func(t *testing.T) {
			t.Parallel()
			in := install(t)
			owner, intruder := in, inLive(t, in)
			if own == "live" {
				owner, intruder = intruder, owner
			}
			var made struct{ ID string }
			owner.ask(t, &made, "client", "create", "--json", "--email", "first@client.example", "--password", password,
				"--name", "Demo Client")
			db := in.database(t)
			const all = everything +
				` || (SELECT count(*) FROM audit_entries) || (SELECT string_agg(kid, ' ') FROM signing_keys)`
			before := query(t, db, all)
			_ = os.MkdirAll(filepath.Join(in.dir, "keys"), 0o700) // without it the commands stop earlier
			for _, command := range []string{
				"serve", "serve --no-work", "work", "migrate", "migrations status", "migrations up",
				"migrations down --yes --live --reason Test", "ledger verify", "key list", "key rotate", "app list",
				"deployment show", "deployment move --reason Test",
				"app create --name CRM --redirect-uri https://crm.example/cb",
				"client create --email second@client.example --password " + strings.ReplaceAll(password, " ", "_") +
					" --name Demo",
				"lawyer invite --email l@firm.example --name Demo --phone +33639980003 --competence TAX --language FR",
				"wallet adjust --reason Test --amount-cents 500 --client " + made.ID,
				"wallet statement --month 2026-03 --client " + made.ID,
				"webhook endpoint app_1",
			} {
				r := intruder.cli(t, strings.Fields(command)...)
				if r.code == 0 || !strings.Contains(r.stderr, "belongs to a "+own+" deployment") || r.stdout != "" {
					t.Errorf("%s: %+v", command, r)
				}
			}
			if after := query(t, db, all); after[0] != before[0] {
				t.Errorf("left behind: %s, was %s", after[0], before[0])
			}
			if _, err := os.Stat(filepath.Join(in.dir, "demo.json")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a demonstration was made: %v", err)
			}
			owner.booksAgree(t)
		})
	}
}
