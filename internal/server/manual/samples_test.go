package manual

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/openapi"
)

// seen is a request as received.
type seen struct {
	Method, Target, Authorization string
	Headers                       map[string]string // those required by the operations of a contract
	Form                          url.Values
	JSON                          any
}

// receiver records the received requests by the path to which they were sent.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]seen
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string]seen{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		// The URL in a sample starts with the name of its operation.
		_, id, _ := strings.Cut(q.URL.Path, "/")
		id, path, _ := strings.Cut(id, "/")
		s := seen{Method: q.Method, Target: "/" + path, Authorization: q.Header.Get("Authorization"),
			Headers: map[string]string{}}
		if q.URL.RawQuery != "" {
			s.Target += "?" + q.URL.RawQuery
		}
		if key := q.Header.Get("Idempotency-Key"); key != "" {
			s.Headers["Idempotency-Key"] = key
		}
		body, _ := io.ReadAll(q.Body)
		switch media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";"); {
		case media == "application/x-www-form-urlencoded":
			s.Form, _ = url.ParseQuery(string(body))
		case len(body) > 0:
			if err := json.Unmarshal(body, &s.JSON); err != nil || media != "application/json" {
				s.JSON = media + ": " + string(body)
			}
		}
		r.mu.Lock()
		r.got[id] = s
		r.mu.Unlock()
	}))
	t.Cleanup(r.Close)
	return r
}

// runners run a folder of samples, one file per operation, in as few processes as the language allows.
var runners = map[string]struct {
	needs, ending string
	change        func(id, code string) string // lets several samples run in one process
	main, source  string                       // file that runs all samples, and its content
	run           []string
}{
	"py": {"python3", ".py", nil, "main.py",
		"import glob, runpy\nfor f in sorted(glob.glob('op_*.py')):\n    runpy.run_path(f)\n",
		[]string{"python3", "main.py"}},
	"php": {"php", ".php", nil, "main.php",
		"<?php\nforeach (glob('op_*.php') as $f) {\n    (function () use ($f) { include $f; })();\n}\n",
		[]string{"php", "main.php"}},
	"ts": {"node", ".mjs", nil, "main.mjs", "import fs from 'node:fs'\nfor (const f of fs.readdirSync('.')) if (f.startsWith('op_')) await import('./' + f)\n",
		[]string{"node", "main.mjs"}},
	"curl": {"curl", ".sh", nil, "main.sh", "set -e\nfor f in op_*.sh; do sh \"$f\"; done\n",
		[]string{"sh", "main.sh"}},
	"go": {"go", ".go", func(id, code string) string {
		return strings.Replace(code, "func main() {", "func init() {", 1)
	}, "main.go", "package main\n\nfunc main() {}\n", []string{"go", "run", "."}},
	"java": {"javac", ".java", func(id, code string) string {
		return strings.Replace(code, "public class Main {", "class "+id+" {", 1)
	}, "", "", []string{"sh", "-c", "javac *.java && java Main"}},
}

// Every sample in the reference is a complete program in its language. It sends the method, URL, credentials and body
// of the example in the contract.
func TestSamplesSendTheExamplesOfTheContracts(t *testing.T) {
	t.Parallel()
	for language, r := range runners {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(r.needs); err != nil {
				t.Skipf("this machine has no %s", r.needs) // only Go is required to build and test
			}
			to, dir, want := newReceiver(t), t.TempDir(), map[string]seen{}
			var calls []string
			for _, contract := range [][]byte{openapi.Partner, openapi.Platform, openapi.Sandbox} {
				s := must(readSpec(contract))
				for path, item := range s.root.get("paths").pairs() {
					for method, op := range item.pairs() {
						if id := op.text("operationId"); id != "authorize" {
							want["op_"+id] = wanted(path, method, item, op)
						}
					}
				}
				for id := range want {
					for _, o := range s.operations("paths", to.URL+"/"+id) {
						i := slices.IndexFunc(o.Samples, func(s sample) bool { return s.ID == language })
						if "op_"+o.ID != id {
							continue
						}
						if i < 0 {
							t.Fatalf("%s has no sample", o.ID)
						}
						code := o.Samples[i].Code
						if r.change != nil {
							code = r.change(id, code)
						}
						if err := os.WriteFile(filepath.Join(dir, id+r.ending), []byte(code), 0o600); err != nil {
							t.Fatal(err)
						}
						calls = append(calls, id+".main(args);")
					}
				}
			}
			main, source := r.main, r.source
			if language == "java" {
				main, source = "Main.java", "class Main { public static void main(String[] args) throws Exception { "+
					strings.Join(calls, " ")+" } }"
			}
			if language == "go" {
				if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module samples\n\ngo 1.24\n"),
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, main), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), r.run[0], r.run[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "ACCESS_TOKEN=token", "CLIENT_ID=app", "CLIENT_SECRET=secret", "GOWORK=off",
				"no_proxy=127.0.0.1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %.3000s", err, out)
			}
			for id, w := range want {
				if got := to.got[id]; !reflect.DeepEqual(got, w) {
					t.Errorf("%s sends\n%+v, want\n%+v", id, got, w)
				}
			}
		})
	}
}

// wanted is what the first example of an operation says to send.
func wanted(path, method string, item, op node) seen {
	w := seen{Method: strings.ToUpper(method), Target: path, Headers: map[string]string{}}
	query := url.Values{}
	for _, p := range slices.Concat(item.get("parameters").items(), op.get("parameters").items()) {
		p = p.resolve()
		switch name := p.text("name"); {
		case p.text("in") == "path":
			w.Target = strings.ReplaceAll(w.Target, "{"+name+"}", p.text("example"))
		case p.text("required") != "true":
		case p.text("in") == "query":
			query.Set(name, p.text("example"))
		default:
			w.Headers[name] = p.text("example")
		}
	}
	if len(query) > 0 {
		w.Target += "?" + query.Encode()
	}
	for _, scheme := range op.get("security").items() {
		w.Authorization = "Bearer token"
		for name := range scheme.pairs() {
			if name == "basic" {
				w.Authorization = "Basic YXBwOnNlY3JldA=="
			}
		}
	}
	for media, content := range op.get("requestBody", "content").pairs() {
		for _, e := range content.get("examples").pairs() {
			if value := e.resolve().get("value"); media == "application/json" {
				if err := json.Unmarshal([]byte(value.json("")), &w.JSON); err != nil {
					panic(err)
				}
			} else {
				w.Form = url.Values{}
				for k, v := range value.pairs() {
					w.Form.Set(k, v.Value)
				}
			}
			break
		}
	}
	return w
}

// All kinds of quotes in an example stay unchanged.
func TestSamplesQuote(t *testing.T) {
	t.Parallel()
	body :=
		must(
			readSpec([]byte("a: \"it's \\\"x\\\" \\\\ `y` $z \\n\"\nb: true\nc: null\nd: [1, {e: 2.5}]\nf: {}\n")),
		).root
	r := request{Method: "POST", URL: base, Body: body}
	for language, want := range map[string]string{"py": `"it's \"x\" \\ ` + "`y` $z \\n\"",
		"php": `'it\'s "x" \\ ` + "`y` $z \n'", "curl": `it'\''s \"x\" \\ ` + "`y` $z \\n",
		"java": `it's \\"x\\" \\\\ `, "go": `it's \\\"x\\\" \\\\`} {
		samples := samples(r)
		code := samples[slices.IndexFunc(samples, func(s sample) bool { return s.ID == language })].Code
		if !strings.Contains(code, want) {
			t.Errorf("%s lacks %q:\n%s", language, want, code)
		}
	}
	if regexp.MustCompile(`\btrue\b|\bnull\b`).MatchString(r.python()) {
		t.Error(r.python())
	}
}
