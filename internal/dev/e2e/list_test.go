package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"partnerd/gen/partner/models"
	"partnerd/internal/infra/postgres"
)

// page reads one page of a list as ids and cursor.
func (s *session) page(t testing.TB, path, cursor string) (ids []string, next *string) {
	t.Helper()
	if cursor != "" {
		path += "&cursor=" + url.QueryEscape(cursor)
	}
	r := s.get(t, path)
	var v struct {
		Items      []struct{ ID string }
		NextCursor *string
	}
	r.is(t, path, http.StatusOK, "")
	r.into(t, &v)
	for _, item := range v.Items {
		ids = append(ids, item.ID)
	}
	if !strings.Contains(string(r.Body), `"nextCursor":`) {
		t.Errorf("%s: no nextCursor (H2)", path)
	}
	return ids, v.NextCursor
}

// walk reads all pages and calls between after each. It returns the sizes of the pages and all ids.
func (s *session) walk(t testing.TB, path string, between func()) (sizes []int, ids []string) {
	t.Helper()
	cursor := ""
	for {
		page, next := s.page(t, path, cursor)
		sizes, ids = append(sizes, len(page)), append(ids, page...)
		if next == nil {
			return sizes, ids
		}
		cursor = *next
		between()
	}
}

// R26, R49, R84, R95, H2, H5, T28: 45 records are 20, 20 and 5, newest first, each once. This holds while new ones are
// created and when many have the same time.
func TestPagesNeitherRepeatNorSkip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 200_000))
	var made []string
	for range 45 {
		made = append(made, s.create(t).ID)
	}
	slices.Reverse(made)
	// Many records have the same time, so the id decides.
	w.exec(t, "UPDATE consultations SET created_at = date_trunc('hour', created_at)")
	insert := func() { s.create(t) }
	for _, list := range []struct {
		path  string
		sizes []int
	}{
		{consultations + "?limit=20", []int{20, 20, 5}},
		// The previous walk created two, which it did not see; this one starts later.
		{consultations + "?status=MATCHING", []int{20, 20, 6}},
	} {
		before := w.queryInt(t, "SELECT count(*) FROM consultations")
		sizes, ids := s.walk(t, list.path, insert)
		if sum(sizes) != before || len(sizes) != 3 || sizes[0] != 20 || sizes[1] != 20 {
			t.Errorf("%s: pages of %v, want %d in three", list.path, sizes, before)
		}
		if got := slices.Compact(slices.Sorted(slices.Values(ids))); len(got) != before {
			t.Errorf("%s: %d different ones, want %d", list.path, len(got), before)
		}
		if rest := ids[len(ids)-45:]; !slices.Equal(rest, made) {
			t.Errorf("%s: not newest first", list.path)
		}
	}
	_, ids := s.walk(t, consultations+"?limit=50", func() {})
	if len(ids) != 49 {
		t.Errorf("limit 50: %d", len(ids))
	}
	walkTransactions(t, w, s)
}

func sum(sizes []int) (n int) {
	for _, x := range sizes {
		n += x
	}
	return n
}

func walkTransactions(t *testing.T, w *world, s *session) {
	t.Helper()
	const path = "/api/v1/wallet/transactions?limit=7"
	before := w.queryInt(t, "SELECT count(*) FROM ledger_transactions WHERE client_id = $1", s.person.ID)
	sizes, ids := s.walk(t, path, func() {
		w.inTx(t,
			func(tx postgres.Tx) error { return w.Wallet.Adjust(t.Context(), tx, s.person.ID, 1, "While paging") })
	})
	if sum(sizes) != before || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != before {
		t.Errorf("%s: pages of %v, want %d", path, sizes, before)
	}
	var page models.WalletTransactionPage
	s.get(t, "/api/v1/wallet/transactions").into(t, &page)
	if len(page.Items) != 20 || page.NextCursor == nil || page.Items[0].Type != "ADJUSTMENT" {
		t.Errorf("without limit: %d items", len(page.Items))
	}
	for _, limit := range []int{1, 50} {
		if got, _ := s.page(t, fmt.Sprintf("/api/v1/wallet/transactions?limit=%d", limit), ""); len(got) != limit &&
			len(got) != before+7 {
			t.Errorf("limit %d: %d items", limit, len(got))
		}
	}
}

// R49, R156, H3: a cursor is bound to the list that issued it. A cursor of another client, application, filter or list,
// or one altered anywhere, is a 400.
func TestCursorsAreBoundToTheirList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 100_000), w.client(t, "c2", true, 100_000)
	s := w.link(t, a, c1)
	for range 3 {
		body := wish()
		body["externalRef"] = "CASE-1"
		s.tryCreate(t, body).is(t, "create", http.StatusCreated, "")
	}
	const list, history = consultations + "?limit=1", "/api/v1/wallet/transactions?limit=1"
	_, ofList := s.page(t, list, "")
	_, ofFilter := s.page(t, list+"&status=MATCHING", "")
	_, ofHistory := s.page(t, history, "")
	if ofList == nil || ofFilter == nil || ofHistory == nil {
		t.Fatal("no cursors")
	}
	refused := func(what string, s *session, path, cursor string) {
		t.Helper()
		refusedParameter(t, what, s.get(t, path+"&cursor="+url.QueryEscape(cursor)), "cursor")
	}
	refused("of another client", w.link(t, a, c2), list, *ofList)
	refused("of another application", w.link(t, b, c1), list, *ofList)
	refused("of a filter", s, list, *ofFilter)
	refused("of no filter", s, list+"&status=MATCHING", *ofList)
	refused("of another filter", s, list+"&status=CANCELLED", *ofFilter)
	_, ofReference := s.page(t, list+"&externalRef=CASE-1&createdAfter=2020-01-01T00:00:00Z", "")
	if ofReference == nil {
		t.Fatal("no cursor")
	}
	if ids, _ := s.page(t, list+"&createdAfter=2020-01-01T01:00:00%2B01:00&externalRef=%20CASE-1",
		*ofReference); len(ids) != 1 {
		t.Errorf("the second page of a reference: %v", ids)
	}
	refused("of a reference", s, list, *ofReference)
	refused("of another reference", s, list+"&externalRef=CASE-2&createdAfter=2020-01-01T00:00:00Z", *ofReference)
	refused("of another time", s, list+"&externalRef=CASE-1&createdAfter=2020-01-02T00:00:00Z", *ofReference)
	refused("of the other bound", s, list+"&externalRef=CASE-1&createdBefore=2020-01-01T00:00:00Z", *ofReference)
	refused("with a filter more", s, list+"&externalRef=CASE-1&createdAfter=2020-01-01T00:00:00Z&status=MATCHING",
		*ofReference)
	refused("of the history", s, list, *ofHistory)
	refused("of the list", s, history, *ofList)
	refused("of another client's history", w.link(t, a, c2), history, *ofHistory)
	raw, err := base64.RawURLEncoding.DecodeString(*ofList)
	w.must(t, err)
	for i := range raw {
		altered := slices.Clone(raw)
		altered[i] ^= 1
		refused(fmt.Sprint("altered at ", i), s, list, base64.RawURLEncoding.EncodeToString(altered))
	}
	for what, cursor := range map[string]string{
		"cut": (*ofList)[:len(*ofList)-2], "longer": *ofList + "AA", "padded": *ofList + "=", "spaced": " " + *ofList,
		"too long": strings.Repeat("A", 1025), "JSON": `{"t":1}`, "short": "AA",
	} {
		refused(what, s, list, cursor)
	}
	// The history belongs to the client, so its cursor does not depend on the partner (T29).
	if _, next := w.link(t, b, c1).page(t, history, *ofHistory); next == nil {
		t.Error("the client's history did not continue at another partner")
	}
}

// R47, R96, H55: a list holds what its partner started for its client, from any session.
func TestListsHoldTheirOwnOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 10_000), w.client(t, "c2", true, 10_000)
	sessions := []*session{w.link(t, a, c1), w.link(t, a, c2), w.link(t, b, c1)}
	var own []string
	for _, s := range sessions {
		own = append(own, s.create(t).ID)
	}
	for i, s := range sessions {
		if ids, _ := s.page(t, consultations+"?limit=50", ""); !slices.Equal(ids, own[i:i+1]) {
			t.Errorf("list of session %d: %v, want %s", i, ids, own[i])
		}
	}
	sessions[0].disconnect(t)
	again := w.link(t, a, c1)
	if ids, _ := again.page(t, consultations+"?limit=50", ""); !slices.Equal(ids, own[:1]) {
		t.Errorf("after linking again: %v", ids)
	}
}

// R52, R95, T13: each filter returns that status only; without one the list has every status.
func TestStatusFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 20_000))
	l := w.lawyer(t, "l1")
	want := map[string]string{}
	want["COMPLETED"] = s.create(t).ID
	w.complete(t, l, want["COMPLETED"])
	want["ASSIGNED"] = s.create(t).ID
	w.assign(t, l, want["ASSIGNED"])
	want["CANCELLED"] = s.create(t).ID
	s.cancel(t, want["CANCELLED"])
	pending := s.create(t).ID
	w.searchLongOver(t, pending)
	want["PENDING_CALLBACK"] = pending
	want["MATCHING"] = s.create(t).ID
	for _, status := range []string{"IN_CALL", "CALL_ENDED", "EXPIRED"} {
		if ids, _ := s.page(t, consultations+"?status="+status, ""); len(ids) != 0 {
			t.Errorf("%s: %v", status, ids)
		}
	}
	for status, id := range want {
		if ids, _ := s.page(t, consultations+"?status="+status, ""); !slices.Equal(ids, []string{id}) {
			t.Errorf("%s: %v, want %s", status, ids, id)
		}
		if got := s.read(t, id).Status; string(got) != status {
			t.Errorf("%s is %s", id, got)
		}
	}
	if ids, _ := s.page(t, consultations+"?limit=50", ""); len(ids) != 5 || !slices.Contains(ids, pending) {
		t.Errorf("without a filter: %v", ids)
	}
}

// TestFiltersOfTheListAreCombined: filters apply together. A reference is matched exactly; the lower time limit is
// inclusive, the upper one exclusive.
func TestFiltersOfTheListAreCombined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 20_000))
	var made []models.Consultation
	for _, ref := range []string{"CASE-1", "CASE-2", "CASE-1", "caf\u00e9 & co"} {
		body := wish()
		body["externalRef"] = ref
		r := s.tryCreate(t, body)
		r.is(t, "create", http.StatusCreated, "")
		var c models.Consultation
		r.into(t, &c)
		made = append(made, c)
	}
	s.cancel(t, made[0].ID)
	at := func(i int) string {
		return url.QueryEscape(s.get(t, consultations+"/"+made[i].ID).value()["createdAt"].(string))
	}
	for query, want := range map[string][]int{
		"externalRef=CASE-1":                                  {2, 0},
		"externalRef=%20CASE-1%20":                            {2, 0},
		"externalRef=case-1":                                  {},
		"externalRef=CASE":                                    {},
		"externalRef=cafe%CC%81%20%26%20co":                   {3}, // decomposed
		"externalRef=CASE-1&status=CANCELLED":                 {0},
		"externalRef=CASE-1&status=COMPLETED":                 {},
		"createdAfter=" + at(1):                               {3, 2, 1},
		"createdBefore=" + at(1):                              {0},
		"createdAfter=" + at(1) + "&createdBefore=" + at(3):   {2, 1},
		"createdAfter=" + at(3) + "&createdBefore=" + at(1):   {},
		"createdAfter=" + at(1) + "&externalRef=CASE-1":       {2},
		"createdBefore=2020-01-01T00:00:00%2B01:00":           {},
		"createdAfter=2020-01-01T00:00:00%2B01:00&limit=1":    {3},
		"status=MATCHING&createdBefore=" + at(3) + "&limit=2": {2, 1},
	} {
		ids, _ := s.page(t, consultations+"?"+query, "")
		got := []string{}
		for _, i := range want {
			got = append(got, made[i].ID)
		}
		if !slices.Equal(ids, got) && len(ids)+len(got) > 0 {
			t.Errorf("%s: %v, want %v", query, ids, got)
		}
	}
	for _, query := range []string{"externalRef=", "externalRef=%20", "externalRef=%E2%80%8B", "externalRef=a%0Ab",
		"externalRef=%FF", "externalRef=" + strings.Repeat("x", 101)} {
		refusedParameter(t, query, s.get(t, consultations+"?"+query), "externalRef")
	}
	refusedParameter(t, "no time", s.get(t, consultations+"?createdAfter=yesterday"), "createdAfter")
	refusedParameter(t, "a day", s.get(t, consultations+"?createdBefore=2026-06-01"), "createdBefore")
	refusedParameter(t, "DRAFT", s.get(t, consultations+"?status=DRAFT"), "status")
}
