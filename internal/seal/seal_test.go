package seal

import (
	"bytes"
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
