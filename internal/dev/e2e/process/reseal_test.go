package process_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/poll"
	"partnerd/internal/base/seal"
)

// TestMasterKeyIsReplacedBesideAServer replaces the master key beside a running server. Re-encryption that is killed
// midway resumes where it stopped. At the end the old part of the key can be removed.
func TestMasterKeyIsReplacedBesideAServer(t *testing.T) {
	t.Parallel()
	const many = 20_000 // rows, enough to interrupt the work midway
	in, addr := install(t), freeAddress(t)
	base := "PARTNERD_BASE_URL=http://" + addr
	server := in.serve(t, addr, base)
	crm := onboard(t, in, server.url, 100_000_000)
	token := crm.link(t, server.url)
	first := create(t.Context(), server.url, token.AccessToken, request{rand.Text(), "IP", "PT"})
	old, err := os.ReadFile(filepath.Join(in.dir, "keys", "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	db := in.database(t)
	sealMany(t, db, string(old), many)

	with := func(key string) *installation {
		changed := *in
		changed.env = append(slices.Clone(in.env), "PARTNERD_MASTER_KEY="+key)
		return &changed
	}
	printed := func(in *installation, step string) string {
		var made struct{ MasterKey string }
		in.ask(t, &made, "key", step, "--json")
		return made.MasterKey
	}
	extended := printed(in, "extend-master")
	promoted := printed(with(extended), "promote-master")
	trimmed, err := seal.TrimKey(promoted)
	if err != nil {
		t.Fatal(err)
	}
	next := with(promoted)
	if r := next.cli(t, "key", "trim-master"); r.code == 0 || !strings.Contains(r.stderr, "still need part") {
		t.Errorf("trimmed while rows need the older part: %+v", r)
	}
	if r := with(trimmed).cli(t, "key", "list"); r.code == 0 || !strings.Contains(r.stderr, "lacks its part") {
		t.Errorf("a key without what rows need: %+v", r)
	}
	server.terminate(t)
	server = next.serve(t, addr, base)

	ctx, stop := context.WithCancel(t.Context())
	calling := make(chan int)
	go func() { // partners keep calling
		n := 0
		for ; poll.Pause(ctx, 50*time.Millisecond); n++ {
			if x := create(ctx, server.url, token.AccessToken,
				request{rand.Text(), "TAX", "PT"}); x.status != http.StatusCreated && ctx.Err() == nil {
				t.Errorf("create: %d %s", x.status, x.body)
			}
		}
		calling <- n
	}()
	killed := next.command(t.Context(), "key", "reseal")
	progress, err := killed.StderrPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(progress); lines.Scan() && !strings.HasPrefix(lines.Text(), "deployment_secrets"); {
	}
	_, _ = killed.Process.Kill(), killed.Wait()
	const left = `SELECT count(*)::text FROM deployment_secrets WHERE substring(secret_sealed from 1 for 5) = (SELECT substring(secret_sealed from 1 for 5) FROM deployment_secrets WHERE purpose = 'row ~')`
	if n := query(t, db, left)[0]; n == "0" {
		t.Log("it was killed too late to be in the middle")
	} else {
		t.Logf("killed with %s rows left", n)
	}
	var done struct{ Resealed, Unopened int }
	began := time.Now()
	next.ask(t, &done, "key", "reseal", "--json")
	t.Logf("%d values resealed in %s", done.Resealed, time.Since(began).Round(100*time.Millisecond))
	if done.Unopened != 0 {
		t.Errorf("%+v", done)
	}
	stop()
	if n := <-calling; n == 0 {
		t.Error("no partner called in the meantime")
	}

	// Stored responses, of requests and of forms, expire in a day. Only they still need the old part.
	if r := next.cli(t, "key", "trim-master"); r.code == 0 || !strings.Contains(r.stderr, "idempotency_keys") {
		t.Errorf("trimmed while a stored response needs the older part: %+v", r)
	}
	if _, err := db.Exec(t.Context(), "DELETE FROM idempotency_keys"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "DELETE FROM oauth_token_answers"); err != nil {
		t.Fatal(err)
	}
	var uses struct {
		Sealing string
		Uses    []struct{ Column, Part string }
	}
	next.ask(t, &uses, "key", "uses", "--json")
	for _, u := range uses.Uses {
		if u.Part != uses.Sealing {
			t.Errorf("left: %+v", u)
		}
	}
	if got := printed(next, "trim-master"); got != trimmed {
		t.Error("another key than the one without the older part")
	}
	server.terminate(t)
	last := with(trimmed)
	server = last.serve(t, addr, base)
	if x := get(t, server.url+"/api/v1/consultations/"+first.consultation(t).ID,
		token.AccessToken); x.status != http.StatusOK || !strings.Contains(string(x.body), "Deposit not returned") {
		t.Errorf("what was written under the first key: %d %s", x.status, x.body)
	}
	whole := create(t.Context(), server.url, token.AccessToken, request{rand.Text(), "HOUSING", "FR"})
	within, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := crm.received.Wait(within, whole.consultation(t).ID, "consultation.completed"); err != nil {
		t.Errorf("a consultation under the new key: %v", err)
	}
	for _, fault := range crm.received.faults(true) {
		t.Error(fault)
	}
	last.booksAgree(t)
	server.terminate(t)
}

// sealMany adds rows encrypted with the key.
func sealMany(t *testing.T, db *pgx.Conn, key string, n int) {
	t.Helper()
	box, err := seal.OpenBox(key)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]any, n)
	for i := range rows {
		purpose := fmt.Sprintf("row %06d", i)
		if i == n-1 {
			purpose = "row ~" // the last to be re-encrypted
		}
		sealed, err := box.Seal("deployment_secrets.secret:"+purpose, []byte(purpose))
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = []any{purpose, sealed, time.Now()}
	}
	if _, err := db.CopyFrom(t.Context(), pgx.Identifier{"deployment_secrets"},
		[]string{"purpose", "secret_sealed", "created_at"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
}
