package webhook

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestVerifyAgreesWithTheVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/signatures.json")
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
	results := map[string]error{"accepted": nil, "expired": ErrSignatureExpired, "mismatch": ErrSignatureMismatch,
		"malformed": ErrSignatureMalformed}
	count := map[string]int{}
	for _, v := range vectors {
		want, known := results[v.Result]
		if !known {
			t.Fatalf("%s: unknown result %q", v.Name, v.Result)
		}
		count[v.Result]++
		if got := Verify(v.Secret, v.Header, []byte(v.Body), time.Unix(v.Now, 0)); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", v.Name, got, want)
		}
	}
	for r := range results {
		if count[r] < 3 {
			t.Errorf("only %d vectors with result %q", count[r], r)
		}
	}
}

func TestSignIsAcceptedByVerifyAndEveryFlippedBitRefused(t *testing.T) {
	t.Parallel()
	body, at := []byte(`{"id":"evt_1"}`), time.Unix(1777887000, 999_000_000)
	header := Sign("whsec_x", at, body)
	if !regexp.MustCompile(`^t=1777887000,v1=[0-9a-f]{64}$`).MatchString(header) {
		t.Fatalf("header %q", header)
	}
	if err := Verify("whsec_x", header, body, at); err != nil {
		t.Fatal(err)
	}
	for i := range len(body) * 8 {
		flipped := append([]byte(nil), body...)
		flipped[i/8] ^= 1 << (i % 8)
		if err := Verify("whsec_x", header, flipped, at); !errors.Is(err, ErrSignatureMismatch) {
			t.Errorf("bit %d of the body flipped: %v", i, err)
		}
	}
	const digits = "0123456789abcdef"
	for i := len(header) - 64; i < len(header); i++ {
		for bit := range 4 {
			d := digits[strings.IndexByte(digits, header[i])^1<<bit]
			if err := Verify("whsec_x", header[:i]+string(d)+header[i+1:], body, at); !errors.Is(err,
				ErrSignatureMismatch) {
				t.Errorf("bit %d of digit %d of the signature flipped: %v", bit, i, err)
			}
		}
	}
}

func TestVerifyMeasuresFractionsOfASecond(t *testing.T) {
	t.Parallel()
	at := time.Unix(1777887000, 0)
	header := Sign("whsec_x", at, nil)
	for offset, want := range map[time.Duration]error{
		299*time.Second + 999*time.Millisecond: nil, -299*time.Second - 999*time.Millisecond: nil,
		300 * time.Second: ErrSignatureExpired, -300 * time.Second: ErrSignatureExpired,
	} {
		if err := Verify("whsec_x", header, nil, at.Add(offset)); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", offset, err, want)
		}
	}
}

func FuzzVerifyNeverAcceptsWhatWasNotSigned(f *testing.F) {
	f.Add("t=1777887000,v1=" + strings.Repeat("0", 64))
	f.Add("t=,v1=")
	f.Add("")
	at := time.Unix(1777887000, 0)
	good := Sign("whsec_x", at, []byte("body"))
	f.Fuzz(func(t *testing.T, header string) {
		if err := Verify("whsec_x", header, []byte("body"), at); err == nil && header != good {
			// Another second within the tolerance would need another signature.
			t.Errorf("accepted %q", header)
		}
	})
}
