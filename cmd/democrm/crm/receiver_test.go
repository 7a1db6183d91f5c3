package crm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestAnEventIsTakenOnceWhateverItsHeadersSay checks that a captured request can be replayed with other headers, but
// creates no new event.
func TestAnEventIsTakenOnceWhateverItsHeadersSay(t *testing.T) {
	t.Parallel()
	const secret = "whsec_Yk3vT9mQ2xW7"
	now := time.Now()
	r := NewReceiver(secret)
	r.Now = func() time.Time { return now }
	post := func(id, delivery, sequence string) int {
		body := fmt.Sprintf(
			`{"id":%q,"type":"consultation.created","createdAt":"2026-06-01T08:30:00.000Z","data":{"id":"con_1"}}`, id,
		)
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", now.Unix(), body)
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set("X-Service-Signature", fmt.Sprintf("t=%d,v1=%s", now.Unix(), hex.EncodeToString(mac.Sum(nil))))
		req.Header.Set("X-Service-Delivery", delivery)
		req.Header.Set("X-Service-Sequence", sequence)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	for _, p := range [][3]string{
		// a retry, and a replay with other headers
		{"evt_1", "dlv_1", "1"}, {"evt_1", "dlv_1", "1"}, {"evt_1", "dlv_2", "9"},
		{"evt_2", "dlv_1", "2"}, // a new event is not lost because its delivery is known
	} {
		if code := post(p[0], p[1], p[2]); code != http.StatusNoContent {
			t.Errorf("%v: %d", p, code)
		}
	}
	got := r.Events("con_1")
	if len(got) != 2 || got[0].ID != "evt_1" || got[0].Sequence != 1 || got[1].ID != "evt_2" {
		t.Errorf("taken: %+v", got)
	}
}
