package crm

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The example in the published contract.
const (
	secret = "whsec_Yk3vT9mQ2xW7"
	body   = `{"id":"evt_01","type":"consultation.created"}`
	header = "t=1780302600,v1=4448a6b7843d1873a282b40ad0a46bd3f0947cedda80b438d70fb28a68a9aeed"
)

// TestVerifyAgreesWithTheVectors uses the test vectors of the service itself.
func TestVerifyAgreesWithTheVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../internal/domain/webhook/testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Secret, Header, Body, Result string
		Now                                int64
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if err := Verify(v.Secret, v.Header, []byte(v.Body),
			time.Unix(v.Now, 0)); (err == nil) != (v.Result == "accepted") {
			t.Errorf("%s: %v, want %s", v.Name, err, v.Result)
		}
	}
	if len(vectors) == 0 {
		t.Error("no vectors")
	}
}

// TestSignaturesAge checks that a signature is valid for less than 300 seconds in either direction.
func TestSignaturesAge(t *testing.T) {
	t.Parallel()
	for age, good := range map[int64]bool{0: true, 299: true, -299: true, 300: false, -300: false, 86_400: false} {
		if err := Verify(secret, header, []byte(body), time.Unix(1780302600+age, 0)); (err == nil) != good {
			t.Errorf("after %d s: %v", age, err)
		}
	}
}

// TestAlteredMessagesAreRefused checks that any change of one bit is rejected, and so is any other form of the header.
func TestAlteredMessagesAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1780302600, 0)
	for i := range body {
		altered := []byte(body)
		altered[i] ^= 1
		if Verify(secret, header, altered, now) == nil {
			t.Errorf("body altered at %d is accepted", i)
		}
	}
	for i := range header {
		altered := []byte(header)
		altered[i] ^= 1
		if Verify(secret, string(altered), []byte(body), now) == nil {
			t.Errorf("header altered at %d is accepted", i)
		}
	}
	for _, other := range []string{"", "t=1780302600", "v1=" + header[len("t=1780302600,v1="):],
		strings.ToUpper(header), header + ",v1=00", " " + header, header + " ",
		fmt.Sprintf("t=1780302600, %s", header[len("t=1780302600,"):])} {
		if Verify(secret, other, []byte(body), now) == nil {
			t.Errorf("header %q is accepted", other)
		}
	}
	if Verify(secret+"x", header, []byte(body), now) == nil ||
		Verify(strings.TrimPrefix(secret, "whsec_"), header, []byte(body), now) == nil {
		t.Error("another secret is accepted")
	}
}
