package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	texts "partnerd/internal/base/text"
	"partnerd/internal/infra/idempotency"
)

// Maximum sizes of request bodies in bytes. They exceed every valid body, however it is escaped, and begin enforces
// them. A lawyer's note is the longest body.
const (
	maxBody     = 64 << 10
	maxNoteBody = 512 << 10
)

func bodyLimit(path string) int64 {
	if isDesk(path) || strings.HasPrefix(path, "/desk/") {
		return maxNoteBody
	}
	return maxBody
}

// bodyFirst reads the body of an operation that has one before the credentials are checked. Otherwise a caller could
// hold back the body until long after the check and outlive its credentials. Errors in the body are reported after
// those of the credentials (readBody). A request without credentials, or with a body larger than begin allows, gets its
// response immediately.
func bodyFirst(op *operation) []echo.MiddlewareFunc {
	if op.body == nil {
		return nil
	}
	return []echo.MiddlewareFunc{func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if sendsCredentials(r.Header) && r.ContentLength <= bodyLimit(r.URL.Path) {
				raw, err := io.ReadAll(r.Body)
				r.Body = readAhead{io.MultiReader(bytes.NewReader(raw), failing{err}), r.Body}
			}
			return next(c)
		}
	}}
}

func sendsCredentials(h http.Header) bool {
	return h.Get("Authorization") != "" || h.Get("Cookie") != ""
}

// readAhead is a body that has already been read.
type readAhead struct {
	io.Reader
	io.Closer
}

// failing is the end of what was read. Its error is nil if the body is complete.
type failing struct{ err error }

// Read implements [io.Reader].
func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// readBody returns the raw JSON of a request and its value. It responds with 400 to a wrong media type, size or syntax
// (decision H48).
func readBody(r *http.Request) ([]byte, map[string]any, error) {
	media, params, err := mime.ParseMediaType(strings.Join(r.Header.Values("Content-Type"), ",")) // two count as none
	if err != nil || media != "application/json" || params["charset"] != "" &&
		!strings.EqualFold(params["charset"], "utf-8") {
		return nil, nil, problem.ErrMalformed.Because("The request body must be application/json in UTF-8.")
	}
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" &&
		!strings.EqualFold(encoding, "identity") {
		return nil, nil, problem.ErrMalformed.Because("Content-Encoding is not supported; send the body as it is.")
	}
	raw, err := io.ReadAll(r.Body) // already read by bodyFirst
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, nil, problem.ErrMalformed.Because("The request body is larger than %d bytes.", tooLarge.Limit)
	case err != nil:
		return nil, nil, problem.ErrMalformed.Because("The request body could not be read.")
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
		return nil, nil, problem.ErrMalformed.Because("The request body contains more than one JSON value.")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return raw, nil, problem.ErrValidation.With(problem.Issue{Code: problem.IssueInvalidType,
			Message: "The body must be a JSON object."})
	}
	return raw, object, nil
}

// check normalises the value (trimmed NFC text, plain integers) and returns it with its validation issues.
func (b *body) check(raw []byte, value map[string]any) (map[string]any, []problem.Issue) {
	issues := lostIssues(raw)
	normal := make(map[string]any, len(value))
	for name, v := range value {
		v = plainNumbers(v)
		if s, ok := v.(string); ok {
			if b.trimmed[name] {
				s = texts.Trimmed(s)
			}
			v = s
			switch {
			case strings.ContainsRune(s, 0):
				issues = append(issues, problem.Issue{Path: name, Code: problem.IssueInvalidValue,
					Message: "Must not contain the character U+0000."})
			case b.trimmed[name] && !texts.IsFree(s, b.lines[name]):
				issues = append(issues, problem.Issue{Path: name, Code: problem.IssueInvalidValue,
					Message: unfitMessage(b.lines[name])})
			}
		}
		normal[name] = v
	}
	return normal, append(issues, issuesOf(b.schema.Validate(normal), "")...)
}

func unfitMessage(lines bool) string {
	if lines {
		return "Must not contain control characters, or invisible characters that change how a text reads."
	}
	return "Must not contain line breaks, control characters, or invisible characters that change how a text reads."
}

// lostIssues finds what the decoder silently drops from the object raw. That is all but the last of several properties
// with one name, and unpaired surrogates.
func lostIssues(raw []byte) (issues []problem.Issue) {
	d := json.NewDecoder(bytes.NewReader(raw))
	_, err := d.Token() // the opening brace
	seen := map[string]int{}
	for err == nil && d.More() {
		key, _ := d.Token()
		name, _ := key.(string)
		if seen[name]++; seen[name] == 2 {
			issues = append(issues, problem.Issue{Path: name, Code: problem.IssueInvalidValue,
				Message: "Must not be given more than once."})
		}
		var value json.RawMessage
		if err = d.Decode(&value); hasLoneSurrogate(value) {
			issues = append(issues, problem.Issue{Path: name, Code: problem.IssueInvalidValue,
				Message: "Must not contain an unpaired surrogate."})
		}
	}
	return issues
}

// plainNumbers converts 2000, 2000.0 and 2e3 to the same integer (T38). Every fraction stays a number that no schema
// accepts as an integer.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return plainNumber(v.String())
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

// plainNumber works on the digits of a JSON number, because floats round: 1999.9999999999999999 is not an integer. A
// number outside int64 becomes the nearest int64, which is outside every allowed range.
func plainNumber(text string) any {
	sign, mantissa, exponent := "", strings.TrimPrefix(text, "-"), 0
	if mantissa != text {
		sign = "-"
	}
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(mantissa[i+1:])           // out of range: the nearest int
		exponent = min(max(exponent, -2*maxBody), 2*maxBody) // no mantissa is long enough to compensate for more
		mantissa = mantissa[:i]
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	all := whole + part
	digits := strings.TrimLeft(all, "0")
	point := len(whole) - (len(all) - len(digits)) + exponent // the number is 0.digits times ten to the power of point
	digits = strings.TrimRight(digits, "0")
	switch {
	case digits == "":
		return int64(0)
	case point > 19:
		digits, point = strings.Repeat("9", 20), 20
	case point < 0:
		point = 0
	}
	if point < len(digits) {
		return json.Number(sign + "0" + digits[:point] + ".5")
	}
	n, _ := strconv.ParseInt(sign+digits+strings.Repeat("0", point-len(digits)), 10, 64)
	return n
}

var unicodeEscape = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`)

// hasLoneSurrogate inspects the escapes of raw JSON, because the decoder silently replaces an unpaired surrogate.
func hasLoneSurrogate(raw []byte) bool {
	open, end := false, 0 // open: a high surrogate waits for its low one, which must start at end
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

// validatedBody passes the checked value to the generated handler. Otherwise the handler would decode the bytes again
// by its own rules.
type validatedBody struct {
	io.ReadCloser
	value any
}

// ValidatedValue is the method that the generated handler looks for.
func (b validatedBody) ValidatedValue() any { return b.value }

// checkBody reads and validates a JSON body. An invalid body is 422, unless the idempotency key determines another
// response first (T5).
func (s *Server) checkBody(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if op.body == nil {
			return next
		}
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			raw, value, refusal := readBody(c.Request())
			if raw == nil {
				return refusal
			}
			if refusal == nil {
				var issues []problem.Issue
				value, issues = op.body.check(raw, value)
				// The contract cannot list the codes of the catalogue, which changes, or the URLs to which a browser
				// may return.
				unlisted, err := s.deps.Catalog.Unlisted(ctx, s.deps.DB.Read(), textOf(value, "competence"),
					textOf(value, "language"))
				if err != nil {
					return err
				}
				issues = append(issues, unlisted...)
				if !slices.ContainsFunc(issues, func(i problem.Issue) bool { return i.Path == "returnUrl" }) {
					issues = append(issues, s.deps.Payments.UnusableReturn(textOf(value, "returnUrl"))...)
				}
				if len(issues) > 0 {
					refusal = problem.ErrValidation.With(issues...)
				}
			}
			return s.passBody(c, raw, value, refusal, next)
		}
	}
}

func (s *Server) passBody(c echo.Context, raw []byte, value map[string]any, refusal error,
	next echo.HandlerFunc,
) error {
	r := requestOf(c.Request().Context())
	r.body = value
	if r.Idempotency.Key != "" {
		var err error
		if r.Idempotency.Fingerprint, err = idempotency.Fingerprint(target(c.Request()), raw); err != nil {
			return fmt.Errorf("fingerprint: %w", err)
		}
		if refusal != nil {
			response, err := s.deps.Idempotency.Refuse(c.Request().Context(), r.Idempotency, refusal)
			if err != nil {
				return err
			}
			return keep(r, response).write(c.Response())
		}
	}
	if refusal != nil {
		return refusal
	}
	c.Request().Body = validatedBody{c.Request().Body, value}
	return next(c)
}

// textOf returns the text of a property, or nil if there is none. Values of other types were already rejected by the
// schema.
func textOf(value map[string]any, property string) *string {
	text, ok := value[property].(string)
	if !ok {
		return nil
	}
	return &text
}
