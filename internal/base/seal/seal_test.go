package seal

import (
	"bytes"
	"errors"
	"testing"
)

func TestBoxOpensOnlyInItsPlaceAndWithItsKey(t *testing.T) {
	t.Parallel()
	box, other := newBox(t), newBox(t)
	sealed, err := box.Seal("client.phone:a", []byte("+33612345678"))
	if err != nil || bytes.Contains(sealed, []byte("3361")) {
		t.Fatalf("seal: %v", err)
	}
	if got, err := box.Open("client.phone:a", sealed); err != nil || string(got) != "+33612345678" {
		t.Errorf("open: %q %v", got, err)
	}
	if _, err := box.Open("client.phone:b", sealed); err == nil {
		t.Error("opened in another place")
	}
	if _, err := other.Open("client.phone:a", sealed); err == nil {
		t.Error("opened with another key")
	}
}

func TestDropTakesAPublicKeyOnly(t *testing.T) {
	t.Parallel()
	public, private, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDrop(public)
	if err != nil {
		t.Fatal(err)
	}
	if sealed, err := d.Seal("note:x", []byte("secret")); err != nil || bytes.Contains(sealed, []byte("secret")) {
		t.Errorf("seal: %v", err)
	}
	if _, err := OpenDrop(private); err == nil {
		t.Error("a private key was accepted as public")
	}
	if _, err := OpenBox("not base64!"); err == nil {
		t.Error("garbage was accepted as a key")
	}
}

func newBox(t *testing.T) *Box {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenBox(k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAKeyIsReplacedWithoutAMomentOfBlindness checks how a master key is replaced: it is extended everywhere first,
// then promoted everywhere. At no time does a replica meet data that it cannot open.
func TestAKeyIsReplacedWithoutAMomentOfBlindness(t *testing.T) {
	t.Parallel()
	old, err1 := NewKey()
	extended, err2 := ExtendKey(old)
	promoted, err3 := PromoteKey(extended)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	open := func(key string) *Box {
		box, err := OpenBox(key)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	opens := func(with, sealedWith string) bool {
		sealed, err := open(sealedWith).Seal("place", []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := open(with).Open("place", sealed)
		return err == nil && string(plain) == "secret"
	}
	// both run while a step is being deployed
	for _, step := range [][2]string{{old, extended}, {extended, promoted}} {
		if !opens(step[0], step[1]) || !opens(step[1], step[0]) {
			t.Error("replicas of two steps do not read each other")
		}
	}
	if !opens(promoted, old) {
		t.Error("what the old key sealed is lost")
	}
	if opens(old, promoted) {
		t.Error("the new key is not used")
	}
	before, err1 := Derive(old, "x")
	after, err2 := Derive(promoted, "x")
	other, err3 := Derive(promoted, "y")
	if err := errors.Join(err1, err2, err3); err != nil || !bytes.Equal(before, after) || bytes.Equal(after, other) {
		t.Errorf("derived secrets changed, or are the same for two purposes: %v", err)
	}
	for _, garbage := range []string{"", "x", "AAAA"} {
		_, err1 := ExtendKey(garbage)
		_, err2 := PromoteKey(garbage)
		_, err3 := Derive(garbage, "x")
		if err1 == nil || err2 == nil || err3 == nil {
			t.Errorf("%q is a key", garbage)
		}
	}
}
