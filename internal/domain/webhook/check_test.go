package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The check distinguishes the reasons why a received message fails verification, without exposing a secret to anyone.
func TestWhatASignatureFailsAt(t *testing.T) {
	t.Parallel()
	const secret, other = "whsec_one", "whsec_two"
	at := time.Unix(1_780_000_000, 0)
	sent := []byte(`{"id":"evt_1","type":"consultation.created","data":{"a":1}}`)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, sent, "", "  "); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		body, known []byte
		by          string
		want        Finding
	}{
		"another secret":          {sent, sent, other, SecretDiffers},
		"re-indented":             {pretty.Bytes(), sent, secret, BodyChanged},
		"re-indented, unknown":    {pretty.Bytes(), nil, secret, BodyChanged},
		"a line break at the end": {append(bytes.Clone(sent), '\n'), nil, secret, BodyChanged},
		"keys in another order": {[]byte(`{"type":"consultation.created","id":"evt_1","data":{"a":1}}`), sent, secret,
			BodyChanged},
		"a value changed": {bytes.Replace(sent, []byte(":1}"), []byte(":2}"), 1), sent, secret, BodyChanged},
		"unknown body":    {[]byte(`{"id":"evt_2"}`), nil, secret, SignatureMismatch},
		"no JSON":         {[]byte("a=1"), nil, other, SignatureMismatch},
	} {
		header := Sign(c.by, at, sent)
		if got := whatDiffers(c.body, c.known,
			func(b []byte) bool { return Verify(secret, header, b, at) == nil }); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if got := firstDifference([]byte("abc"), []byte("abd")); got != 2 {
		t.Error(got)
	}
	if got := firstDifference([]byte("ab"), []byte("abd")); got != 2 {
		t.Error(got)
	}
	if got, ok := timeOf(Sign(secret, at, sent)); !ok || !got.Equal(at) {
		t.Error(got, ok)
	}
	for _, bad := range []string{"", "t=1,v1=", "v1=" + strings.Repeat("0", 64)} {
		if _, ok := timeOf(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
}
