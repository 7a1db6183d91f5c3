package manual

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// drivers turn a snippet into a program that reads the vectors from its input and prints one line for each.
var drivers = map[string]struct {
	file, before, after string
	run                 []string // followed by the file
}{
	"go": {"main.go", `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

`, `
func main() {
	var vectors []struct {
		Secret, Header, Body string
		Now                  int64
	}
	if err := json.NewDecoder(os.Stdin).Decode(&vectors); err != nil {
		panic(err)
	}
	for _, v := range vectors {
		fmt.Println(Verify(v.Secret, v.Header, []byte(v.Body), time.Unix(v.Now, 0)))
	}
}
`, []string{"go", "run"}},
	"js": {"main.cjs", "", `
for (const v of JSON.parse(require("node:fs").readFileSync(0, "utf8")))
  console.log(verify(v.secret, v.header, Buffer.from(v.body), v.now * 1000));
`, []string{"node"}},
	"py": {"main.py", "", `

import json, sys
for v in json.loads(sys.stdin.buffer.read()):
    print(str(verify(v["secret"], v["header"], v["body"].encode(), v["now"])).lower())
`, []string{"python3"}},
	"php": {"main.php", "", `
foreach (json_decode(stream_get_contents(STDIN), true) as $v) {
    echo var_export(verify($v['secret'], $v['header'], $v['body'], $v['now']), true), "\n";
}
`, []string{"php"}},
}

// The documented verification code accepts and rejects the same signatures as the service itself.
func TestSnippetsAgreeWithTheSignatureVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../domain/webhook/testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Name, Result string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, s := range must(readSnippets()) {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			d, ok := drivers[s.ID]
			if !ok {
				t.Fatal("nothing runs this snippet")
			}
			if _, err := exec.LookPath(d.run[0]); err != nil {
				t.Skipf("this machine has no %s", d.run[0]) // only Go is required to build and test
			}
			file := filepath.Join(t.TempDir(), d.file)
			if err := os.WriteFile(file, []byte(d.before+s.Code+d.after), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), d.run[0], append(d.run[1:], file)...)
			cmd.Stdin = strings.NewReader(string(raw))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			verdicts := strings.Fields(string(out))
			if len(verdicts) != len(vectors) {
				t.Fatalf("%d verdicts on %d vectors: %s", len(verdicts), len(vectors), out)
			}
			for i, v := range vectors {
				if (verdicts[i] == "true") != (v.Result == "accepted") {
					t.Errorf("%s: %s, want %s", v.Name, verdicts[i], v.Result)
				}
			}
		})
	}
}
