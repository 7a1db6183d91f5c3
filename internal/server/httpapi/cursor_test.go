package httpapi

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
)

var cursorKey = cursors{[]byte("a key of thirty-two random bytes")}

func TestCursorsBelongToTheirList(t *testing.T) {
	t.Parallel()
	position := consultation.Position{CreatedAt: time.Date(2026, 3, 1, 9, 0, 0, 123456000, time.UTC), ID: "con_1"}
	c, err := cursorKey.encode("list", position)
	if err != nil {
		t.Fatal(err)
	}
	var got consultation.Position
	if err := cursorKey.decode("list", c, &got); err != nil || got != position {
		t.Errorf("%+v, %v", got, err)
	}
	if err := cursorKey.decode("list", nil, &got); err != nil || got != position {
		t.Errorf("without a cursor: %+v, %v", got, err)
	}
	changed := *c
	for i := range changed {
		other := byte('A')
		if changed[i] == 'A' {
			other = 'B'
		}
		altered := changed[:i] + string(other) + changed[i+1:]
		if err := cursorKey.decode("list", &altered, &consultation.Position{}); !errors.Is(err, problem.ErrMalformed) {
			t.Fatalf("altered at %d: %v", i, err)
		}
	}
	for name, of := range map[string]struct {
		k    cursors
		list string
	}{"another list": {cursorKey, "list2"}, "no list": {cursorKey, ""}, "another key": {cursors{[]byte("b")}, "list"}} {
		if err := of.k.decode(of.list, c, &consultation.Position{}); !errors.Is(err, problem.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCursor sends texts as cursors. Only a cursor issued by the list is accepted, none panics, and the position is
// read back.
func FuzzCursor(f *testing.F) {
	good, err := cursorKey.encode("transactions:cli_1", int64(42))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", *good, *good + "=", strings.ToLower(*good), (*good)[1:], "AAAA", "null",
		strings.Repeat("A", 22), "%00", "é", strings.Repeat("A", 5000)} {
		f.Add("transactions:cli_1", s, int64(7))
	}
	f.Fuzz(func(t *testing.T, list, text string, seq int64) {
		own, err := cursorKey.encode(list, seq)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := base64.RawURLEncoding.Strict().DecodeString(*own); err != nil {
			t.Fatalf("not base64url: %q", *own)
		}
		var got int64
		if err := cursorKey.decode(list, own, &got); err != nil || got != seq {
			t.Fatalf("%d came back as %d, %v", seq, got, err)
		}
		if err := cursorKey.decode(list+"x", own, &got); err == nil {
			t.Fatalf("accepted for another list: %q", *own)
		}
		got = -1
		err = cursorKey.decode(list, &text, &got)
		switch {
		case text == *own, text == *good && list == "transactions:cli_1":
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
		case err == nil:
			t.Fatalf("accepted a forged cursor %q", text)
		case got != -1 || !errors.Is(err, problem.ErrMalformed):
			t.Fatalf("position %d, %v", got, err)
		}
	})
}
