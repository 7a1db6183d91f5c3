package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
)

// atDesk sends a request to the Desk API in a session.
func (w *world) atDesk(t testing.TB, token, method, path string, body any) *reply {
	t.Helper()
	return w.send(t, method, "/api/desk/v1"+path, body, "Cookie", staff.CookieName(false)+"="+token,
		"X-CSRF-Token", staff.FormToken(token))
}

// TestOnlyTheLawyersKeyOpensHisCopy: a lawyer's copy opens with their key, and the note is nowhere else. It is in no
// response, page, webhook, metric or log, nor in a dump of the database while the copy exists. The private key is
// nowhere at all.
func TestOnlyTheLawyersKeyOpensHisCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, client := w.partner(t, "CRM A"), w.client(t, "c1", true, 2*wallet.Price)
	s := w.link(t, p, client)
	lawyer := w.lawyer(t, "l1")
	token, other := dbtest.SignIn(t, w.DB, lawyer), dbtest.SignIn(t, w.DB, w.lawyer(t, "l2"))
	own, err := age.GenerateX25519Identity()
	w.must(t, err)
	w.secret(own.String())
	w.atDesk(t, token, http.MethodGet, "/key", nil).is(t, "no key", http.StatusOK, "")
	for _, bad := range []any{object{"recipient": ""}, object{"recipient": own.String()}, object{"recipient": "age1"},
		object{}, object{"recipient": 1}} {
		w.atDesk(t, token, http.MethodPut, "/key", bad).is(t, "a bad key", http.StatusUnprocessableEntity,
			"VALIDATION_ERROR")
	}
	w.send(t, http.MethodPut, "/api/desk/v1/key", object{"recipient": own.Recipient().String()},
		"Cookie", staff.CookieName(false)+"="+token, "X-CSRF-Token", staff.FormToken(token),
		"Origin", "https://evil.example").is(t, "a page of another origin", http.StatusForbidden, "FORBIDDEN")
	w.atDesk(t, token, http.MethodPut, "/key", object{"recipient": own.Recipient().String()}).
		is(t, "set", http.StatusOK, "")
	eventually(t, "the lawyer reads from where the key was set", func() bool {
		names, err := filepath.Glob(filepath.Join(w.Config.DataDir, "mail", "*.eml"))
		w.must(t, err)
		return slices.ContainsFunc(names, func(name string) bool {
			mail, err := os.ReadFile(name)
			return err == nil && strings.Contains(string(mail), "from the IP address 127.0.0.1") &&
				strings.Contains(string(mail), "/staff/security")
		})
	})
	c := s.create(t)
	w.complete(t, lawyer, c.ID)
	p.receiver.await(t, c.ID, "note_available")

	w.atDesk(t, other, http.MethodGet, "/copies", nil).is(t, "another lawyer's list", http.StatusOK, "")
	w.atDesk(t, other, http.MethodPost, "/copies/"+c.ID+"/take", nil).is(t, "another lawyer", http.StatusNotFound,
		"NOT_FOUND")
	var list struct {
		Items []struct {
			ConsultationID string
			EarlierKey     bool
		}
	}
	w.atDesk(t, token, http.MethodGet, "/copies", nil).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].ConsultationID != c.ID || list.Items[0].EarlierKey {
		t.Errorf("copies %+v", list)
	}
	take := func() (file string) {
		var copied struct{ FileName, Content string }
		r := w.atDesk(t, token, http.MethodPost, "/copies/"+c.ID+"/take", nil)
		r.into(t, &copied)
		if copied.FileName != c.ID+".age" {
			t.Errorf("%s", r)
		}
		return copied.Content
	}
	opened, err := age.Decrypt(armor.NewReader(strings.NewReader(take())), own)
	w.must(t, err)
	if text, err := io.ReadAll(opened); err != nil || string(text) != canary+" and what was said" {
		t.Errorf("the copy holds %q, %v", text, err)
	}
	take()

	for _, path := range []string{consultations, consultations + "/" + c.ID, consultations + "/" + c.ID + "/note",
		consultations + "/" + c.ID + "/events"} {
		s.get(t, path) // every response is searched for the note
	}
	for _, path := range []string{
		"/desk", "/desk/key", "/desk/key/change", "/desk/history", "/desk/consultations/" + c.ID + "/note",
	} {
		if r := w.send(t, http.MethodGet, path, nil, "Cookie",
			staff.CookieName(false)+"="+token); r.Status != http.StatusOK ||
			bytes.Contains(r.Body, []byte(own.String())) {
			t.Errorf("%s: %s", path, r)
		}
	}
	metrics, err := w.Metrics.Gather()
	w.must(t, err)
	if strings.Contains(fmt.Sprint(metrics), canary) {
		t.Error("a metric carries the note")
	}
	address, err := url.Parse(w.Config.DatabaseOwnerURL)
	w.must(t, err)
	q := address.Query()
	q.Del("require_auth") // only this program's driver knows it
	address.RawQuery = q.Encode()
	var dump, said bytes.Buffer
	pgDump := exec.CommandContext(t.Context(), "pg_dump", "--dbname", address.String())
	pgDump.Stdout, pgDump.Stderr = &dump, &said
	if err := pgDump.Run(); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, &said)
	}
	if !bytes.Contains(dump.Bytes(), []byte(own.Recipient().String())) || !bytes.Contains(dump.Bytes(), []byte(c.ID)) {
		t.Error("the dump is not of this database")
	}
	for _, secret := range []string{canary, own.String(), "BEGIN AGE ENCRYPTED", "age-encryption.org"} {
		if holds(dump.Bytes(), secret) {
			t.Errorf("the dump holds %q", secret)
		}
	}
	w.atDesk(t, token, http.MethodDelete, "/key", nil).is(t, "removed", http.StatusOK, "")
}

// holds reports whether a dump contains a text, plain or in a bytea column.
func holds(dump []byte, text string) bool {
	const digits = "0123456789abcdef"
	var asHex []byte
	for _, b := range []byte(text) {
		asHex = append(asHex, digits[b>>4], digits[b&15])
	}
	return bytes.Contains(dump, []byte(text)) || bytes.Contains(dump, asHex)
}
