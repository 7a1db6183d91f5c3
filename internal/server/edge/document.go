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

// minPacked is a size in bytes below which an answer fits into one packet anyway.
const minPacked = 1400

// Document is public content that is the same for whoever asks. It alone is compressed: the length of a compressed
// answer that holds a secret beside words that a caller chose tells the secret (BREACH), so answers of the API and
// pages with forms or personal data stay as they are.
type Document struct {
	contentType string
	body        []byte
	tag         string        // digest of body
	packed      func() []byte // body in gzip, made when it is first asked for
}

// NewDocument makes a document of content that does not change any more.
func NewDocument(contentType string, body []byte) Document {
	sum := sha256.Sum256(body)
	return Document{contentType, body, hex.EncodeToString(sum[:12]),
		sync.OnceValue(func() []byte { return pack(body) })}
}

// ServeHTTP implements [http.Handler]. Each encoding has an ETag of its own, and a Range is one of the text as it is.
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

// packers are kept because each one needs most of a megabyte.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func pack(body []byte) []byte {
	var out bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// takesGzip reads Accept-Encoding (RFC 9110 section 12.5.3): what is said of gzip counts more than what is said of all.
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
