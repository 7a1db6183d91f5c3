package edge

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func ask(d Document, method string, header ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, "/", nil), httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	d.ServeHTTP(w, r)
	return w
}

func TestADocumentIsCompressedForWhoeverTakesGzip(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat("public text\n", 500))
	d := NewDocument("text/plain", body)
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000": false,
		"*": true, "*;q=0": false, "gzip;q=0, *": false, "identity, *;q=0": false, "gzip;q=x": false, "br": false,
		",;,": false, "gzip, *;q=0": true,
	} {
		w := ask(d, http.MethodGet, "Accept-Encoding", accept)
		got := w.Body.Bytes()
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != want {
			t.Errorf("%q: compressed %t", accept, packed)
		} else if packed {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if w.Code != 200 || !bytes.Equal(got, body) || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %d, %d bytes, %v", accept, w.Code, len(got), w.Header())
		}
	}
	if w := ask(NewDocument("text/plain", body[:100]), http.MethodGet, "Accept-Encoding", "gzip"); w.Header().
		Get("Content-Encoding") != "" {
		t.Error("what fits into a packet was compressed")
	}
}

func TestADocumentIsRevalidatedByTheTagOfItsEncoding(t *testing.T) {
	t.Parallel()
	d := NewDocument("text/plain", []byte(strings.Repeat("public text\n", 500)))
	plain := ask(d, http.MethodGet).Header().Get("ETag")
	packed := ask(d, http.MethodGet, "Accept-Encoding", "gzip").Header().Get("ETag")
	if plain == packed || strings.HasPrefix(plain, "W/") || strings.HasPrefix(packed, "W/") {
		t.Fatalf("ETags %s and %s", plain, packed)
	}
	for _, c := range []struct {
		accept, match string
		status        int
	}{
		{"", plain, 304}, {"", "W/" + plain, 304}, {"", `"x", ` + plain, 304}, {"", "*", 304}, {"", `"x"`, 200},
		{"", packed, 200}, {"gzip", packed, 304}, {"gzip", `W/"x", W/` + packed, 304}, {"gzip", plain, 200},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := ask(d, method, "Accept-Encoding", c.accept, "If-None-Match", c.match)
			if w.Code != c.status || (w.Code == 304 || method == http.MethodHead) && w.Body.Len() > 0 ||
				w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("ETag") == "" {
				t.Errorf("%s %+v: %d with %d bytes %v", method, c, w.Code, w.Body.Len(), w.Header())
			}
		}
	}
	part := ask(d, http.MethodGet, "Accept-Encoding", "gzip", "Range", "bytes=0-5")
	if part.Code != 206 || part.Body.String() != "public" || part.Header().Get("ETag") != plain {
		t.Errorf("a part: %d %q %v", part.Code, part.Body, part.Header())
	}
}
