package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/openapi"
)

// canary is in every lawyer's note of these tests, outside the preview. Only the lawyer may ever read it (R16).
const canary = "CANARY-privileged-7f3a91"

// spec is the Partner API's contract and deskSpec that of the Desk API. Both are read once.
var (
	spec         = readContract(openapi.Partner)
	platformSpec = readContract(openapi.Platform)
	deskSpec     = readContract(openapi.Desk)
)

// seen counts what the service sent: "operation status", "operation status code" and "webhook type".
var seen = &tally{counts: map[string]int{}}

type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *tally) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[fmt.Sprintf(format, args...)]++
}

func (s *tally) has(format string, args ...any) bool {
	return s.count(format, args...) > 0
}

func (s *tally) count(format string, args ...any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[fmt.Sprintf(format, args...)]
}

// checked is a transport that checks every response of the service against the contract.
type checked struct {
	t    testing.TB
	host string // of the service
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil || r.URL.Host != c.host || strings.HasPrefix(r.URL.Path, "/api/platform/") { // own contracts
		return resp, err
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	judge := spec
	if strings.HasPrefix(r.URL.Path, "/api/desk/") {
		judge = deskSpec
	}
	for _, fault := range judge.judge(r, resp, raw) {
		c.t.Errorf("%s %s: %d %s: %s", r.Method, r.URL.Path, resp.StatusCode, fault, clip(raw))
	}
	return resp, nil
}

func clip(raw []byte) string { return fmt.Sprintf("%.300s", raw) }

// judge returns what is wrong with a response.
func (c *contract) judge(r *http.Request, resp *http.Response, raw []byte) (faults []string) {
	if bytes.Contains(raw, []byte(canary)) {
		faults = append(faults, "carries the privileged note")
	}
	if resp.StatusCode >= 500 {
		faults = append(faults, "is a server error")
	}
	if resp.Header.Get("X-Request-Id") == "" {
		faults = append(faults, "has no X-Request-Id (H49)")
	}
	if r.Method != http.MethodHead && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") &&
		!strings.HasPrefix(r.URL.Path, "/openapi") {
		faults = append(faults, judgeTimes(raw)...)
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		return faults
	}
	op, known := c.find(r.Method, r.URL.Path)
	if op == nil {
		if r.URL.Path == "/api/v1" || strings.HasPrefix(r.URL.Path, "/api/v1/") {
			faults = append(faults, rateHeaders(resp.Header)...)
		}
		return append(faults, c.judgeUnknown(r, resp, raw, known)...)
	}
	answer := op.responses[resp.StatusCode]
	if answer == nil {
		return append(faults, "has a status that the operation does not document")
	}
	seen.add("%s %d", op.id, resp.StatusCode)
	for name, h := range answer.headers {
		faults = append(faults, h.judge(name, resp.Header.Values(name))...)
	}
	if len(answer.content) == 0 {
		if len(raw) > 0 {
			faults = append(faults, "has a body where none is documented")
		}
		return faults
	}
	if r.Method == http.MethodHead {
		if len(raw) > 0 {
			faults = append(faults, "has a body")
		}
		return faults
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	schema := answer.content[media]
	if schema == nil {
		return append(faults, fmt.Sprintf("has Content-Type %q, documented are %v",
			media, slices.Collect(maps.Keys(answer.content))))
	}
	if media != "application/json" {
		return faults
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		faults = append(faults, "has Content-Type "+got)
	}
	value, more := validate(schema, raw)
	faults = append(faults, more...)
	if value == nil {
		return faults
	}
	if extra := c.undeclared(answer.raw[media], value, ""); len(extra) > 0 {
		faults = append(faults, fmt.Sprintf("carries undocumented properties %v", extra))
	}
	if resp.StatusCode >= 400 {
		code, _ := value["code"].(string)
		seen.add("%s %d %s", op.id, resp.StatusCode, code)
		for i, said := range sayings(value) {
			seen.add("%s %d says %s", op.id, resp.StatusCode, said)
			if i == 0 { // several operations share the message of a code
				seen.add("%d says %s", resp.StatusCode, said)
			}
		}
		if !slices.Contains(answer.codes, code) {
			faults = append(faults, fmt.Sprintf("has code %q, documented are %v", code, answer.codes))
		}
		faults = append(faults, judgeIssues(resp.StatusCode, value)...)
	}
	return faults
}

// sayings are the parts of an error that an example of the contract shows: code and message, and each issue.
func sayings(value object) (said []string) {
	said = append(said, fmt.Sprintf("%v: %v", value["code"], value["message"]))
	issues, _ := value["issues"].([]any)
	for _, i := range issues {
		issue, _ := i.(object)
		said = append(said, fmt.Sprintf("%v %v: %v", issue["path"], issue["code"], issue["message"]))
	}
	return said
}

// judgeUnknown checks the response to a path or method that the document does not have.
func (c *contract) judgeUnknown(r *http.Request, resp *http.Response, raw []byte, known bool) (faults []string) {
	schema := c.anyError
	if r.Method == http.MethodOptions && resp.StatusCode == http.StatusNoContent {
		return nil // one of the public paths
	}
	if strings.HasPrefix(r.URL.Path, "/api/oauth/") {
		if r.URL.Path == c.operation("authorize").path {
			return nil // a page
		}
		schema = c.oauthError
	}
	want := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests}
	if known {
		want[2] = http.StatusMethodNotAllowed
	}
	if !slices.Contains(want, resp.StatusCode) {
		faults = append(faults, fmt.Sprintf("is not one of %v", want))
	}
	if resp.StatusCode == http.StatusMethodNotAllowed && resp.Header.Get("Allow") == "" {
		faults = append(faults, "has no Allow")
	}
	if r.Method == http.MethodHead {
		return faults
	}
	_, more := validate(schema, raw)
	return append(faults, more...)
}

// judgeIssues: a 422 lists its errors (R51), and every error has a path unless it concerns the whole body.
func judgeIssues(status int, value object) (faults []string) {
	issues, _ := value["issues"].([]any)
	if status == http.StatusUnprocessableEntity && len(issues) == 0 {
		faults = append(faults, "has no issues (R51)")
	}
	if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest && len(issues) > 0 {
		faults = append(faults, "has issues although nothing in the request is invalid")
	}
	return faults
}

var (
	anyTime = regexp.MustCompile(`"\d{4}-\d\d-\d\d[Tt ][^"]*"`)
	oneTime = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"$`)
)

// judgeTimes: every time has the same width, so times sort as strings.
func judgeTimes(raw []byte) (faults []string) {
	for _, t := range anyTime.FindAll(raw, -1) {
		if seen.add("time"); !oneTime.Match(t) {
			faults = append(faults, fmt.Sprintf("has the time %s", t))
		}
	}
	return faults
}

func validate(schema *jsonschema.Schema, raw []byte) (object, []string) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, []string{"is not JSON: " + err.Error()}
	}
	o, _ := value.(object)
	if err := schema.Validate(value); err != nil {
		return o, []string{"breaks its schema: " + err.Error()}
	}
	return o, nil
}

// judge checks the values of a header.
func (p parameter) judge(name string, values []string) []string {
	switch {
	case len(values) == 0 && p.required:
		return []string{"has no " + name}
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return []string{"has " + name + " more than once"}
	}
	var value any = values[0]
	if p.raw["type"] == "integer" {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return []string{name + " is not an integer: " + values[0]}
		}
		value = json.Number(strconv.FormatInt(n, 10))
	}
	if err := p.schema.Validate(value); err != nil {
		return []string{name + " " + values[0] + ": " + err.Error()}
	}
	return nil
}

// rateHeaders are on every response below /api/v1 (H28), even where the document does not mention them.
func rateHeaders(h http.Header) (faults []string) {
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if _, err := strconv.ParseUint(h.Get(name), 10, 64); err != nil {
			faults = append(faults, fmt.Sprintf("%s is %q (H28)", name, h.Get(name)))
		}
	}
	return faults
}

// TestSpellingsOfAPathAndHead: a path is the same whichever of its characters are escaped (RFC 3986 section 6.2.2.2),
// and HEAD responds as GET does.
func TestSpellingsOfAPathAndHead(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	escaped := strings.ReplaceAll(k.done, "_", "%5f")
	for _, path := range []string{"/api/v1/consultations/" + escaped, "/api/v1/consultations/" + escaped + "/note",
		"/api/v1/%6de", "/api/v1/wallet%2Dx/.."} {
		r := k.s.get(t, path)
		if want := k.s.get(t, strings.NewReplacer("%5f", "_", "%6d", "m", "%2D", "-").
			Replace(path)); r.Status != want.Status || string(r.Body) != string(want.Body) {
			t.Errorf("%s: %s, want %s", path, r, want)
		}
	}
	key := newKey()
	first := k.s.do(t, http.MethodPost, "/api/v1/%77allet/topup-session",
		object{"amountCents": 2000, "returnUrl": "https://crm.example/"}, "Idempotency-Key", key)
	again := k.s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 2000,
		"returnUrl": "https://crm.example/"}, "Idempotency-Key", key)
	if first.Status != http.StatusOK || string(first.Body) != string(again.Body) {
		t.Errorf("one key on two spellings: %s, %s", first, again)
	}
	for _, op := range spec.operations {
		if op.method != http.MethodGet {
			continue
		}
		c := k.valid(op)
		get := c.as(t, k.s)
		c.method = http.MethodHead
		head := c.as(t, k.s)
		if head.Status != get.Status || len(head.Body) > 0 {
			t.Errorf("HEAD %s: %s, GET: %s", op.path, head, get)
		}
		for name := range get.Header {
			switch name {
			case "Date", "X-Request-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset":
			case "Content-Length", "Location":
			default:
				if head.Header.Get(name) != get.Header.Get(name) {
					t.Errorf("HEAD %s: %s is %q, GET says %q", op.path, name, head.Header.Get(name),
						get.Header.Get(name))
				}
			}
		}
	}
	if !k.logs.contains("method=HEAD") {
		t.Error("the log does not say HEAD")
	}
}
