package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// T38: a JSON number counts as an integer exactly if it is one, however it is written. No float rounds on the way, and
// no exponent costs time.
func TestNumbersAreReadExactly(t *testing.T) {
	t.Parallel()
	const fraction = "fraction"
	zeros := strings.Repeat("0", 60_000)
	for text, want := range map[string]any{
		"0": 0, "-0": 0, "0.0": 0, "-0e5": 0, "0e999999999": 0, "2000": 2000, "2000.0": 2000, "2e3": 2000, "2E+3": 2000,
		"-2e3": -2000, "20000e-1": 2000, "0.02e5": 2000, "0.0002e7": 2000, "100e-2": 1, "1.50e1": 15,
		"2000." + zeros: 2000, "2" + zeros + "e-59997": 2000, "0." + zeros + "2e60004": 2000,
		"9007199254740993": 9007199254740993, "9007199254740993.0": 9007199254740993,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808.0": math.MinInt64,
		"9223372036854775808": math.MaxInt64, "-9223372036854775809": math.MinInt64,
		"99999999999999999999": math.MaxInt64, "1e300": math.MaxInt64, "-1e999999999": math.MinInt64,
		"1e99999999999999999999": math.MaxInt64, "1" + zeros: math.MaxInt64, "1.5": fraction, "1e-2": fraction,
		"-1e-2": fraction, "1e-999999999": fraction, "1e-99999999999999999999": fraction,
		"1999.9999999999999999": fraction, "2000.000000000000001": fraction, "99999.999999999999999": fraction,
		"100000.00000000000000001": fraction, "2000." + zeros + "1": fraction, "-0.5": fraction,
		"9223372036854775807.5": fraction, "20001e-1": fraction, "0.000001e5": fraction,
	} {
		got := plainNumbers(json.Number(text))
		if number, ok := got.(json.Number); ok && strings.HasSuffix(number.String(), ".5") && len(number) < 25 {
			got = fraction
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%.40s: %v, want %v", text, got, want)
		}
	}
}

// A fraction keeps its place between the integers, so that the validator reports no unrelated issue.
func TestFractionsStayBetweenTheirNeighbours(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1999.9999999999999999": "01999.5", "-2000.01": "-02000.5", "1e-9": "0.5", "-0.25e-9": "-0.5",
	} {
		if got := fmt.Sprint(plainNumbers(json.Number(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Nothing in a body is silently lost. Whatever a decoder drops becomes an issue that names the property.
func TestWhatADecoderDropsIsNamed(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`: "", `{"a":"\ud83d\ude00","b":1}`: "", `{"a":{"b":1},"c":{"b":2}}`: "", `{"a":"\\ud800"}`: "",
		`{"a":1,"a":1}`:              "a Must not be given more than once.",
		`{"a":1,"b":2,"\u0061":[3]}`: "a Must not be given more than once.",
		`{"a":"x","b":"\ud800"}`:     "b Must not contain an unpaired surrogate.",
		`{"b":["\ude00\ud83d"]}`:     "b Must not contain an unpaired surrogate.",
	} {
		got := ""
		for _, i := range lostIssues([]byte(raw)) {
			got += i.Path + " " + i.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
