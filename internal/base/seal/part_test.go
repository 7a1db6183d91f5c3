package seal

import (
	"errors"
	"testing"
)

// TestPartsAreToldApart checks that what a part sealed begins with its mark. A trimmed key opens only what its newest
// part sealed.
func TestPartsAreToldApart(t *testing.T) {
	t.Parallel()
	old, err1 := NewKey()
	extended, err2 := ExtendKey(old)
	promoted, err3 := PromoteKey(extended)
	trimmed, err4 := TrimKey(promoted)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	var boxes [4]*Box
	for i, key := range []string{old, extended, promoted, trimmed} {
		var err error
		if boxes[i], err = OpenBox(key); err != nil {
			t.Fatal(err)
		}
		sealed, err := boxes[i].Seal("place", []byte("secret"))
		if part, ok := PartOf(sealed); err != nil || !ok || part != boxes[i].Sealing() ||
			string(sealed[:5]) != string(part.Mark()) {
			t.Errorf("%d: %s %t %v", i, part, ok, err)
		}
	}
	first, second := boxes[0].Sealing(), boxes[2].Sealing()
	if first == second || boxes[1].Sealing() != first || boxes[3].Sealing() != second {
		t.Error("the wrong part seals")
	}
	for i, n := range []int{1, 2, 2, 1} {
		if len(boxes[i].Parts()) != n || !boxes[i].Has(boxes[i].Sealing()) {
			t.Errorf("%d: %v", i, boxes[i].Parts())
		}
	}
	if boxes[0].Has(second) || boxes[3].Has(first) {
		t.Error("a part is known that is not there")
	}
	sealed, err := boxes[0].Seal("place", []byte("secret"))
	if _, err2 := boxes[3].Open("place", sealed); err != nil || err2 == nil {
		t.Errorf("the trimmed key opens what was the older part's: %v %v", err, err2)
	}
	data, err := OpenDataKey(NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	if data.Has(0) || len(data.Parts()) != 0 {
		t.Error("a data key has parts")
	}
	for _, short := range [][]byte{nil, {1}, {1, 2, 3, 4}, {2, 0, 0, 0, 1, 9}} {
		if _, ok := PartOf(short); ok {
			t.Errorf("%x is of a part", short)
		}
	}
}
