package password

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trustelem/zxcvbn/frequency"
	"golang.org/x/text/unicode/norm"
)

// Weakness is a reason why a password must not be chosen.
type Weakness string

// The weaknesses.
const (
	Length  Weakness = "length"  // too short or too long
	Own     Weakness = "own"     // little more than the person's email address or name, or the name of the service
	Common  Weakness = "common"  // little more than words of leaked passwords, and the usual digits after them
	Pattern Weakness = "pattern" // repetitions, sequences, and rows of keys
)

func (w Weakness) Error() string {
	switch w {
	case Length:
	case Own:
		return "the password is close to the email address, the name or the name of the service"
	case Common:
		return "the password is close to one that attackers try first"
	case Pattern:
		return "the password repeats characters or follows a pattern"
	}
	return "the password is too short or too long"
}

// MaxLength bounds a password, in code points.
const MaxLength = 256

// Rule is the minimum that a password must meet.
type Rule struct {
	Length int // code points
	Parts  int // guesses needed by an attacker who knows the usual habits: a character, a word, a pattern, a year
}

// The rules.
var (
	OfClients = Rule{Length: 8, Parts: 4}
	OfStaff   = Rule{Length: 12, Parts: 6}
)

// examined is the number of bytes that are checked: the rest can only make a password stronger.
const examined = 64

// Check returns nil, or an error that wraps the [Weakness] of plain. own is what others know about the person: email
// address and name.
func (r Rule) Check(plain string, own ...string) error {
	if l := utf8.RuneCountInString(plain); l < r.Length || l > MaxLength {
		return fmt.Errorf("%w: %d to %d characters are needed", Length, r.Length, MaxLength)
	}
	lower := strings.ToLower(norm.NFC.String(plain))
	lower = lower[:min(len(lower), examined)]
	if parts, w := partsOf(lower, own); parts < r.Parts {
		return w
	}
	return nil
}

// undisguised replaces symbols by the letters that they stand for. It changes no length.
var undisguised = strings.NewReplacer("0", "o", "1", "l", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$",
	"s", "!", "i")

// Costs of the elements of a password, in parts.
const (
	ofCharacter = 1
	ofPattern   = 1
	ofOwn       = 1
	ofCommon    = 2
)

// partsOf splits a password into as few parts as explain it, and returns what explains most of it.
func partsOf(s string, own []string) (parts int, w Weakness) {
	readings := [2]string{s, undisguised.Replace(s)}
	words := map[Weakness][]string{Own: occurring(readings, ownWords(own)), Common: occurring(readings, commonWords)}
	type step struct {
		parts, from int
		w           Weakness
	}
	best := make([]step, len(s)+1) // for each prefix
	for end := 1; end <= len(s); end++ {
		best[end] = step{best[end-1].parts + ofCharacter, end - 1, ""}
		explain := func(length, cost int, w Weakness) {
			if n := best[end-length].parts + cost; n < best[end].parts {
				best[end] = step{n, end - length, w}
			}
		}
		for w, cost := range map[Weakness]int{Own: ofOwn, Common: ofCommon} {
			for _, word := range words[w] {
				if strings.HasSuffix(readings[0][:end], word) || strings.HasSuffix(readings[1][:end], word) {
					explain(len(word), cost, w)
				}
			}
		}
		for length := 2; length <= end; length++ {
			if follows(s[end-length:end], s[:end-length]) {
				explain(length, ofPattern, Pattern)
			}
		}
	}
	explained := map[Weakness]int{}
	for end := len(s); end > 0; end = best[end].from {
		explained[best[end].w] += end - best[end].from
	}
	for _, w = range []Weakness{Own, Common, Pattern} {
		if explained[w] == max(explained[Own], explained[Common], explained[Pattern]) {
			break
		}
	}
	return best[len(s)].parts, w
}

// rows are neighbouring keys on the keyboards of our languages.
var rows = []string{"qwertyuiop", "asdfghjkl", "zxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn", "1q2w3e4r5t6y7u8i9o0p",
	"1a2z3e4r5t6y7u8i9o0p", "1234567890", "qazwsxedcrfvtgb"}

// follows reports whether part is predictable after before: a repetition, a constant step, a row of keys, or a year.
func follows(part, before string) bool {
	if len(part) >= 3 && strings.Contains(before, part) {
		return true
	}
	if len(part) == 4 && (part[:2] == "19" || part[:2] == "20") && digits(part) {
		return true
	}
	step := int(part[1]) - int(part[0])
	even := step >= -1 && step <= 1
	for i := 1; i < len(part) && even; i++ {
		even = int(part[i])-int(part[i-1]) == step
	}
	return even || len(part) >= 3 && slices.ContainsFunc(rows, func(row string) bool {
		return strings.Contains(row, part) || strings.Contains(reversed(row), part)
	})
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

const shortestWord = 4 // shorter words are as easily guessed as one part or two

// occurring returns the words that occur in one of the readings.
func occurring(readings [2]string, words iter.Seq[string]) (found []string) {
	for word := range words {
		if len(word) >= shortestWord && (strings.Contains(readings[0], word) || strings.Contains(readings[1], word)) {
			found = append(found, word)
		}
	}
	return found
}

// ownWords returns what others know about a person, and the name of the service.
func ownWords(own []string) iter.Seq[string] {
	var all []string
	for _, one := range append([]string{"partnerd"}, own...) {
		one = strings.ToLower(norm.NFC.String(one))
		words := strings.FieldsFunc(one, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		all = append(append(all, words...), one, strings.Join(words, ""))
	}
	return slices.Values(all)
}

// commonWords yields the most frequent leaked passwords, names and words. They are searched for each password, which
// costs less than the hash and no memory.
func commonWords(yield func(string) bool) {
	for _, list := range frequency.FrequencyLists {
		for _, word := range list {
			if !yield(word) {
				return
			}
		}
	}
	for _, word := range french {
		if !yield(word) {
			return
		}
	}
}

// french are words that are frequent in passwords here but missing from the library's lists.
var french = strings.Fields(
	`motdepasse bonjour marseille chocolat doudou loulou soleil jetaime azerty azertyuiop avocat avocate cabinet
	consultation juridique france paris amour maison famille vacances administrateur bienvenue`,
)
