package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/problem"
)

// maxBody is the largest request body in bytes: more than any valid one, however it is escaped.
const maxBody = 64 << 10

// readBody returns the raw JSON of a request and its value. Faults are 400: media type, size, syntax (decision H48).
func readBody(r *http.Request) ([]byte, map[string]any, error) {
	media, params, err := mime.ParseMediaType(strings.Join(r.Header.Values("Content-Type"), ",")) // two are none
	if err != nil || r.Header.Get("Content-Encoding") != "" || media != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, nil, problem.ErrMalformed.Because("The request body must be application/json in UTF-8.")
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, nil, problem.ErrMalformed.Because("The request body could not be read.")
	case len(raw) > maxBody:
		return nil, nil, problem.ErrMalformed.Because("The request body is larger than %d bytes.", maxBody)
	case !utf8.Valid(raw):
		return nil, nil, problem.ErrMalformed.Because("The request body is not valid UTF-8.")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, nil, problem.ErrMalformed.Because("The request body is not valid JSON.")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, problem.ErrMalformed.Because("The request body holds more than one JSON value.")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return raw, nil, problem.ErrValidation.With(problem.Issue{Code: problem.IssueInvalidType, Message: "The body must be a JSON object."})
	}
	return raw, object, nil
}

// check brings the value to its normal form (defaults, trimmed NFC text, plain integers) and returns it with its faults.
func (b *body) check(raw []byte, value map[string]any) (map[string]any, []problem.Issue) {
	var issues []problem.Issue
	normal := make(map[string]any, len(value))
	for name, v := range value {
		v = plainNumbers(v)
		if s, ok := v.(string); ok {
			if strings.ContainsRune(s, 0) {
				issues = append(issues, problem.Issue{Path: name, Code: problem.IssueInvalidValue, Message: "Must not contain the character U+0000."})
			}
			if b.properties[name].trim {
				v = norm.NFC.String(strings.TrimSpace(s))
			}
		}
		normal[name] = v
	}
	for name, p := range b.properties {
		if _, given := normal[name]; !given && p.fallback != nil {
			normal[name] = p.fallback
		}
	}
	if hasLoneSurrogate(raw) {
		issues = append(issues, problem.Issue{Code: problem.IssueInvalidValue, Message: "A text holds half of a surrogate pair."})
	}
	return normal, append(issues, issuesOf(b.schema.Validate(normal), "")...)
}

// plainNumbers turns 2000, 2000.0 and 2e3 into the same integer (T38); other numbers stay fractions, which no schema accepts.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := strconv.ParseFloat(v.String(), 64)
		switch {
		case err != nil:
			return math.MaxInt64 // out of every range
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			return int64(f)
		}
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

var unicodeEscape = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`)

// hasLoneSurrogate looks at the escapes of raw JSON, because the decoder replaces half a pair without a word.
func hasLoneSurrogate(raw []byte) bool {
	open, end := false, 0 // a high surrogate waits for its other half, which must start at end
	for _, m := range unicodeEscape.FindAllSubmatchIndex(raw, -1) {
		var unit uint64
		if m[2] >= 0 {
			unit, _ = strconv.ParseUint(string(raw[m[2]:m[3]]), 16, 16)
		}
		low := unit >= 0xDC00 && unit <= 0xDFFF
		if open && !(low && m[0] == end) || low && !open {
			return true
		}
		open, end = unit >= 0xD800 && unit <= 0xDBFF, m[1]
	}
	return open
}

// validatedBody hands the checked value to the generated handler, which would otherwise decode the bytes again by rules
// of its own.
type validatedBody struct {
	io.ReadCloser
	value any
}

// ValidatedValue is what the generated handler looks for.
func (b validatedBody) ValidatedValue() any { return b.value }
