package edge

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// minPacked is the size in bytes below which a response fits into one packet even without compression.
const minPacked = 1400

// Document is public content that is the same for every caller. Only documents are compressed. Compression could reveal
// a secret in a response that also contains words chosen by the caller (BREACH). API responses and pages with forms or
// personal data are therefore never compressed.
type Document struct {
	contentType string
	body        []byte
	tag         string        // digest of the body
	packed      func() []byte // body in gzip, created on first use
}

// NewDocument creates a document from content that never changes.
func NewDocument(contentType string, body []byte) Document {
	sum := sha256.Sum256(body)
	return Document{contentType, body, hex.EncodeToString(sum[:12]),
		sync.OnceValue(func() []byte { return pack(body) })}
}

// ServeHTTP implements [http.Handler]. Each encoding has its own ETag. A Range request is served from the uncompressed
// text.
func (d Document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Add("Vary", "Accept-Encoding")
	body, tag := d.body, d.tag
	if len(body) >= minPacked && r.Header.Get("Range") == "" && takesGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body, tag = d.packed(), tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// packers reuses compressors because each one needs almost a megabyte.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func pack(body []byte) []byte {
	var out bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body) // a buffer accepts every write
	_ = w.Close()
	return out.Bytes()
}

// takesGzip reads Accept-Encoding (RFC 9110 section 12.5.3). An explicit entry for gzip takes precedence over the entry
// for "*".
func takesGzip(values []string) bool {
	takes := map[string]bool{}
	for _, coding := range strings.Split(strings.ToLower(strings.Join(values, ",")), ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		weight, weighted := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		takes[strings.TrimSpace(name)] = !weighted || err == nil && q > 0
	}
	if said, ok := takes["gzip"]; ok {
		return said
	}
	return takes["*"]
}
