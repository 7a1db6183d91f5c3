package vault

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func TestAKeyOpensWhatItsClientHasAndNothingElse(t *testing.T) {
	t.Parallel()
	db, master := dbtest.New(t), sealtest.Box(t)
	k := New(master)
	var one, two Key
	err := db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		one, err = k.Create(t.Context(), tx, "cli_1")
		if err == nil {
			two, err = k.Create(t.Context(), tx, "cli_2")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := one.Seal("place", []byte("secret"))
	if err != nil || sealed[0] != version || bytes.Contains(sealed, []byte("secret")) {
		t.Fatalf("seal: %x %v", sealed, err)
	}
	if got, err := one.Open("place", sealed); err != nil || string(got) != "secret" {
		t.Errorf("open: %q %v", got, err)
	}
	if _, err := two.Open("place", sealed); err == nil {
		t.Error("another client's key opens it")
	}
	if _, err := one.Open("elsewhere", sealed); err == nil {
		t.Error("it opens in another place")
	}
	if _, err := master.Open("place", sealed[1:]); err == nil {
		t.Error("the master key opens it")
	}
	older, err := master.Seal("place", []byte("older"))
	if err != nil {
		t.Fatal(err)
	}
	none, err := k.Of("cli_3", nil)
	for _, key := range []Key{one, none} {
		if got, err := key.Open("place", older); err != nil || string(got) != "older" {
			t.Errorf("what the master key sealed: %q %v", got, err)
		}
	}
	if _, err2 := none.Open("place", sealed); err != nil || !errors.Is(err2, ErrNoKey) {
		t.Errorf("open without a key: %v %v", err, err2)
	}
	if _, err := none.Seal("place", nil); !errors.Is(err, ErrNoKey) {
		t.Errorf("seal without a key: %v", err)
	}
	var stored []byte
	if err := db.Pool().QueryRow(t.Context(), `SELECT key_sealed FROM vault.client_keys WHERE client_id = 'cli_1'`).
		Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Of("cli_2", stored); err == nil {
		t.Error("a key that was moved to another client opens")
	}
	for _, garbage := range [][]byte{{}, {1}, sealed} {
		if _, err := one.Open("place", garbage[:len(garbage)/2]); err == nil {
			t.Errorf("%x opens", garbage)
		}
	}
	if _, err := k.ForWriting(t.Context(), db.Read(), "cli_unknown", nil); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key for nobody: %v", err)
	}
}

// TestFirstWritersAtOnceGetOneKey covers a client of an older release.
func TestFirstWritersAtOnceGetOneKey(t *testing.T) {
	t.Parallel()
	db, k := dbtest.New(t), New(sealtest.Box(t))
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_1', 'c@example.org', 'Demo Client', '', now(), now())`); err != nil {
		t.Fatal(err)
	}
	keys := make([]Key, 6)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			err := db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
				keys[i], err = k.ForWriting(t.Context(), tx, "cli_1", nil)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	sealed, err := keys[0].Seal("place", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if got, err := key.Open("place", sealed); err != nil || string(got) != "secret" {
			t.Errorf("another writer's key: %q %v", got, err)
		}
	}
}
