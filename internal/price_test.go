package internal

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/wallet"
)

// Amounts that appear in texts.
var (
	cents  = fmt.Sprint(int64(wallet.Price))
	half   = fmt.Sprint(int64(wallet.Price / 2))
	euros  = strings.TrimSuffix(fmt.Sprintf("%d.%02d", wallet.Price/100, wallet.Price%100), ".00")
	spared = fmt.Sprint(int64(5000 - wallet.Price)) // of the 50 euros in the guide to the wallet
)

// priced are the phrases that state the price, with the path, or part of it, of the files that contain them. Each
// phrase captures amounts; want lists the correct ones in this order.
var priced = []struct {
	files, phrase string
	want          []string
}{
	{"README.md", `(\d+) cents (?:reserved|charged)`, []string{cents}},
	{"README.md", `wallet reserves ([\d.]+) EUR`, []string{euros}},
	{"conformance/command.go", `verified number and ([\d.]+) EUR`, []string{euros}},
	{"cmd/democrm/crm/doc.go", `Price int64 = (\d+)`, []string{cents}}, // it knows only the contract
	{"manual/guides/en/limits.md", `\| Top-up \| (\d+) to`, []string{cents}},
	{"manual/guides/fr/limits.md", `\| Rechargement \| (\d+) à`, []string{cents}},
	{"manual/guides/en/overview.md", `Reserves ([\d.]+) euros`, []string{euros}},
	{"manual/guides/fr/overview.md", `Réserve ([\d.,]+) euros`, []string{strings.Replace(euros, ".", ",", 1)}},
	{"manual/guides/en/quickstart.md", "`availableCents` at least (\\d+)", []string{cents}},
	{"manual/guides/fr/quickstart.md", "`availableCents` au moins (\\d+)", []string{cents}},
	{"manual/guides/en/wallet.md", `(?:consultation costs|amount is between) (\d+)`, []string{cents}},
	{"manual/guides/fr/wallet.md", `(?:consultation coûte|montant va de) (\d+)`, []string{cents}},
	{"manual/guides/", `\| 5000 \| ([1-9]\d*) \| (\d+) \|`, []string{cents, spared}},
	{"manual/guides/", `\| (\d+) \| 0 \| (\d+) \|\n\| (?:or|ou) `, []string{spared, spared}},
	{"openapi/partner.yaml", `(?:[Ll]ess than|at least) (\d+)\s+cents`, []string{cents}},
	{"openapi/partner.yaml", `consultation (?:costs|needs) (\d+)`, []string{cents}},
	{"openapi/partner.yaml", `(?:Reserves|in cents,) (\d+)`, []string{cents}},
	{"openapi/partner.yaml", `(\d+) cents are reserved`, []string{cents}},
	{"openapi/partner.yaml", `(?:priceCents|refundedCents|heldCents): (\d+)`, []string{cents}},
	{"openapi/partner.yaml", `amountCents:\n +type: integer\n(?: +format: \w+\n)? +minimum: (\d+)`, []string{cents}},
	{"openapi/partner.yaml", `path: amountCents\n +code: \w+\n +message: Must be at least (\d+)`, []string{cents}},
	{"openapi/partner.yaml", `type: (?:HOLD|CAPTURE|RELEASE|REFUND)\n +amountCents: -?(\d+)`, []string{cents}},
	{"openapi/sandbox.yaml", "\\| `refunded` \\|.*`refundedCents` (\\d+)", []string{cents}},
	{"openapi/sandbox.yaml", "\\| `refunded_half` \\|.*`refundedCents` (\\d+)", []string{half}},
	{"openapi/spec/decisions.md", `top-up and wallet \| (\d+) to`, []string{cents}},
	{"openapi/spec/requirements.md", "(?:consultation costs|`heldCents` is) (\\d+)", []string{cents}},
	{"openapi/spec/requirements.md", "an integer of at least (\\d+) cents", []string{cents}},
	{"openapi/spec/sections.md", `(?:consultation costs|Price and smallest top-up) (\d+)`, []string{cents}},
	{"openapi/spec/sections.md", `topup-session.*at least (\d+)`, []string{cents}},
}

// TestThePriceIsWrittenOnce finds every text that states the price of a consultation and compares it with
// [wallet.Price]. A phrase that states the price and is not in [priced] is found by its amount.
func TestThePriceIsWrittenOnce(t *testing.T) {
	t.Parallel()
	texts := tracked(t)
	delete(texts, "openapi/webhooks/webhooks.yaml") // its texts are checked in partner.yaml, where they are written out
	for name, text := range pageTexts(t) {
		texts[name] = text
	}
	known := map[string][][]int{} // by file: ranges in which the amounts are checked
	for _, p := range priced {
		found := false
		for name, text := range texts {
			if !strings.Contains(name, p.files) {
				continue
			}
			for _, at := range regexp.MustCompile(p.phrase).FindAllStringSubmatchIndex(text, -1) {
				for i, want := range p.want {
					from, to := at[2*i+2], at[2*i+3]
					if got := text[from:to]; got != want {
						t.Errorf("%s:%d says %s where the price makes it %s", name, line(text, from), got, want)
					}
					found, known[name] = true, append(known[name], []int{from, to})
				}
			}
		}
		if !found {
			t.Errorf("no file %s says %q: take it from the list", p.files, p.phrase)
		}
	}
	for name, text := range texts {
		for _, from := range unheld(name, text, known[name]) {
			at := fmt.Sprintf("%s:%d", name, line(text, from))
			t.Errorf("%s says the price: take it from wallet.Price, or hold the phrase in the list here", at)
		}
	}
}

// TestTheWaiverNamesThePrice checks the text that clients acknowledge. Its published versions never change.
func TestTheWaiverNamesThePrice(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"fr", "en"} {
		text, ok := consultation.WaiverText(consultation.WaiverVersion, language)
		if price := wallet.Price.Format(language); !ok || !strings.Contains(text, price) {
			t.Errorf("waiver %s in %q does not say %s: publish a new version",
				consultation.WaiverVersion, language, price)
		}
	}
}

var (
	movement = regexp.MustCompile(`type: ([A-Z]+)\n +amountCents: (-?\d+)\n +currency: EUR\n` +
		` +balanceAfterCents: (\d+)\n +availableAfterCents: (\d+)`)
	movements = regexp.MustCompile(`(?m)^ +items:\n` +
		`(?: +(?:- )?(?:id|type|\w+Cents|currency|consultationId|description|createdAt): .*\n)+`)
	balances = regexp.MustCompile(`balanceCents: (\d+)\n +availableCents: (\d+)\n +heldCents: (\d+)`)
	fee      = regexp.MustCompile(`feeCents: (\d+)`)
)

// TestTheExamplesOfTheLedgerAddUp checks the wallet examples of the contract: their figures follow from their amounts,
// including the price. A lawyer's fees are fees of consultations.
func TestTheExamplesOfTheLedgerAddUp(t *testing.T) {
	t.Parallel()
	texts := tracked(t)
	contract, seen := texts["openapi/partner.yaml"], 0
	for _, at := range movements.FindAllStringIndex(contract, -1) {
		shown := movement.FindAllStringSubmatch(contract[at[0]:at[1]], -1)
		seen += len(shown)
		for i := 0; i+1 < len(shown); i++ { // newest first
			amount, balance, available := number64(t, shown[i][2]), number64(t, shown[i+1][3]),
				number64(t, shown[i+1][4])
			if kind := shown[i][1]; kind != "HOLD" && kind != "RELEASE" {
				balance += amount
			}
			if shown[i][1] != "CAPTURE" {
				available += amount
			}
			if got := shown[i]; got[3] != fmt.Sprint(balance) || got[4] != fmt.Sprint(available) {
				t.Errorf("partner.yaml: after %s of %d in the list of line %d the wallet has %d, %d "+
					"available: it says %s, %s",
					got[1], amount, line(contract, at[0]), balance, available, got[3], got[4])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d movements were found", seen)
	}
	wallets := balances.FindAllStringSubmatch(contract, -1)
	for _, w := range wallets {
		if number64(t, w[1]) != number64(t, w[2])+number64(t, w[3]) {
			t.Errorf("partner.yaml: a wallet of %s has %s available and %s reserved", w[1], w[2], w[3])
		}
	}
	fees := fee.FindAllStringSubmatch(texts["openapi/desk.yaml"], -1)
	for _, f := range fees {
		if money.Cents(number64(t, f[1]))%wallet.LawyerFee != 0 {
			t.Errorf("desk.yaml: %s are no fees of %d", f[1], wallet.LawyerFee)
		}
	}
	if len(wallets) == 0 || len(fees) == 0 {
		t.Error("no wallet or no fee was found")
	}
}

// pageTexts returns the texts of pages and messages by path.
func pageTexts(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*/*/*.json")
	deeper, err2 := filepath.Glob("*/*/*/*.json")
	if names = append(names, deeper...); err != nil || err2 != nil || len(names) < 5 {
		t.Fatalf("found %v, %v, %v", names, err, err2)
	}
	texts := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts["internal/"+filepath.ToSlash(name)] = string(raw)
	}
	return texts
}

// Places where an amount may equal the price by coincidence: files without readers or about the past, and rows about
// other quantities.
var (
	unread = regexp.MustCompile(`_test\.go$|\.test\.[jt]s$|^migrations/|/(?:bench|e2e|simulate|waiver)/` +
		`|^openapi/(?:released/|CHANGELOG)|/changelog\.md$`)
	another = regexp.MustCompile(
		"2000 (?:char|caractères)|[Ll]ength: 2000|(?:at most|near|of|integer|0 to|0 à) 2000\\b" +
			"|`2000|2000\\.0|euros, for example 2000|maxTestEuros = 2000|w3\\.org/2000|−20,00 €",
	)
	ofMoney = regexp.MustCompile(`(?i)cents|price|amount|top.?up|euro|\bEUR\b|€`)
)

// unheld returns where the text says the price and no phrase of [priced] does.
func unheld(name, text string, known [][]int) []int {
	if unread.MatchString(name) {
		return nil
	}
	digits := cents[:len(cents)-3] + "_?" + cents[len(cents)-3:]
	prose := slices.Contains([]string{".md", ".yaml", ".html", ".json"}, filepath.Ext(name))
	fraction := fmt.Sprintf("[.,]%02d", wallet.Price%100)
	if wallet.Price%100 == 0 {
		fraction = "(?:" + fraction + ")?"
	}
	amount := fmt.Sprintf(`\b%[1]s\b|€ ?%[2]d%[3]s\b|\b%[2]d%[3]s[\s\x{a0}](?:€|euros?\b|EUR\b)`,
		digits, wallet.Price/100, fraction)
	var found []int
	for _, at := range regexp.MustCompile(amount).FindAllStringIndex(text, -1) {
		begin, end := strings.LastIndexByte(text[:at[0]], '\n')+1, len(text)
		if next := strings.IndexByte(text[at[1]:], '\n'); next >= 0 {
			end = at[1] + next
		}
		ours := slices.ContainsFunc(known, func(k []int) bool { return k[0] < at[1] && at[0] < k[1] })
		if row := text[begin:end]; !ours && !another.MatchString(row) && (prose || ofMoney.MatchString(row)) {
			found = append(found, at[0])
		}
	}
	return found
}

func line(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

func number64(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
