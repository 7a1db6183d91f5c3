package staff

import (
	"errors"
	"strings"
	"testing"
)

// readOver lists characters that are ignored in a code. noCode lists characters that make a text no code.
var (
	readOver = []string{" ", "\t", "\n", "\u0085", "\u00a0", "\u2003", "\u3000", "-"}
	noCode   = []string{"\u200b", "\u200d", "\ufeff", "\x00", "\xff", "0", "a", "_", "\u0661", "\uff11", "\u212a"}
)

func TestATextIsACodeOfOneKind(t *testing.T) {
	t.Parallel()
	const device, recovery = "123456", "01ab-cdef-ghjk-mnpq"
	for typed, want := range map[string]Code{
		device: {device: device}, "123-456": {device: device}, "0123456789012345": {recovery: "0123456789012345"},
		recovery: {recovery: "01abcdefghjkmnpq"}, "OIAB-CDEF-GHJK-MNPQ": {recovery: "01abcdefghjkmnpq"},
		"lo" + recovery[2:]: {recovery: "10abcdefghjkmnpq"}, "": {}, "12345": {}, "1234567": {}, "l23456": {},
		"12345o": {}, recovery[1:]: {}, recovery + "0": {}, "u" + recovery[1:]: {}, "é" + recovery[2:]: {},
	} {
		if got := ReadCode(typed); got != want || got.IsRecovery() != (want.recovery != "") {
			t.Errorf("%q is read as %+v, want %+v", typed, got, want)
		}
	}
	for n := range 20 {
		for _, pad := range readOver {
			pads := strings.Repeat(pad, n)
			for _, typed := range []string{pads + device, device + pads, device[:3] + pads + device[3:]} {
				if got := ReadCode(typed); got != (Code{device: device}) {
					t.Errorf("%q is read as %+v", typed, got)
				}
			}
		}
		for _, pad := range noCode {
			if got := ReadCode(device + strings.Repeat(pad, n)); got.device != "" && n > 0 {
				t.Errorf("%d of %q after a code make %+v", n, pad, got)
			}
		}
	}
}

// A text that rate limits treat as a recovery code is never tried as a code of the device, and vice versa.
func TestAPaddedCodeOfTheDeviceIsNoRecoveryCode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	for _, pad := range append(readOver, noCode...) {
		for n := range 11 {
			typed := m.code(h) + strings.Repeat(pad, n)
			if !ReadCode(typed).IsRecovery() {
				continue
			}
			half, err := h.half(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.enter(half, typed); !errors.Is(err, ErrCode) {
				t.Errorf("%q: %v", typed, err)
			}
		}
	}
	half, err := h.half(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.enter(half, " "+strings.ReplaceAll(strings.ToUpper(m.recovery[0]), "-", "\u2003")+"\n"); err != nil {
		t.Errorf("a recovery code with other spaces: %v", err)
	}
}
