package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/infra/postgres"
)

func (c *fixture) sendCode(clientID, phone string) error {
	return c.tx(func(tx postgres.Tx) error { return c.SendCode(c.Context(), tx, clientID, phone, demo.Password, "fr") })
}

func (c *fixture) enter(clientID, code string) (r CodeResult) {
	c.Helper()
	c.ok(func(tx postgres.Tx) (err error) {
		r, err = c.EnterCode(c.Context(), tx, clientID, code, "fr")
		return err
	})
	return r
}

func (c *fixture) phone(clientID string) string {
	c.Helper()
	phone, _, err := c.Accounts.VerifiedPhone(c.Context(), c.DB.Read(), clientID)
	if err != nil {
		c.Fatal(err)
	}
	return phone
}

func wrongFor(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}

func TestANumberBecomesTheClientsWithTheCodeThatWasSentToIt(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	id := create(t, c.Accounts, c.DB, demo).ID
	if err := c.sendCode(id, "06 39 98 00 02"); err != nil {
		t.Fatal(err)
	}
	code := c.code(1)
	if c.texts[0].To != "+33639980002" || !strings.Contains(c.texts[0].Text, "est votre code") {
		t.Errorf("text message: %+v", c.texts[0])
	}
	if got := c.phone(id); got != "+33612345678" {
		t.Errorf("the number changed before the proof: %s", got)
	}
	if masked, ok, err := c.PendingPhone(t.Context(), c.DB.Read(), id); masked != "+33 ••••••• 02" || !ok ||
		err != nil {
		t.Errorf("pending: %q %v %v", masked, ok, err)
	}
	if r := c.enter(id, wrongFor(code)); r != CodeWrong {
		t.Errorf("wrong code: %s", r)
	}
	if r := c.enter(id, code[:3]+" "+code[3:]); r != CodeRight {
		t.Errorf("right code: %s", r)
	}
	if got := c.phone(id); got != "+33639980002" {
		t.Errorf("number: %s", got)
	}
	if r := c.enter(id, code); r != CodeOver {
		t.Errorf("again: %s", r)
	}
	if m := c.mail(1); !strings.Contains(m.Text, "numéro de téléphone a été modifié") {
		t.Errorf("notice: %+v", m)
	}
}

func TestACodeDiesAfterFiveTriesOrTenMinutesOrWithTheNextOne(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	id := create(t, c.Accounts, c.DB, demo).ID
	for i := range 5 {
		if err := c.sendCode(id, "+33639980002"); err != nil {
			t.Fatal(err)
		}
		c.code(i + 1)
	}
	codes := make([]string, 5)
	for i := range codes {
		codes[i] = c.code(i + 1)
	}
	if codes[3] != codes[4] && c.enter(id, codes[3]) == CodeRight {
		t.Error("an older code counts")
	}
	c.clock.Advance(CodeLifetime)
	if r := c.enter(id, codes[4]); r != CodeOver {
		t.Errorf("too late: %s", r)
	}
	c.clock.Advance(time.Hour)
	if err := c.sendCode(id, "+33639980003"); err != nil {
		t.Fatal(err)
	}
	code := c.code(6)
	for i := range CodeTries {
		want := CodeWrong
		if i == CodeTries-1 {
			want = CodeOver
		}
		if r := c.enter(id, wrongFor(code)); r != want {
			t.Errorf("try %d: %s", i+1, r)
		}
	}
	if r := c.enter(id, code); r != CodeOver {
		t.Errorf("right code after five wrong ones: %s", r)
	}
	if got := c.phone(id); got != "+33612345678" {
		t.Errorf("number: %s", got)
	}
}

func TestParallelTriesCountEach(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	id := create(t, c.Accounts, c.DB, demo).ID
	if err := c.sendCode(id, "+33639980002"); err != nil {
		t.Fatal(err)
	}
	code := c.code(1)
	results := make([]CodeResult, 10)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = c.enter(id, wrongFor(code)) })
	}
	wg.Wait()
	judged := 0
	for _, r := range results {
		if r == CodeWrong {
			judged++
		}
	}
	if judged != CodeTries-1 {
		t.Errorf("%d of 10 tries may go on", judged)
	}
	if r := c.enter(id, code); r != CodeOver {
		t.Errorf("after them the right code is %s", r)
	}
	c.clock.Advance(time.Minute)
	if err := c.sendCode(id, "+33639980002"); err != nil {
		t.Fatal(err)
	}
	right := c.code(2)
	for i := range results {
		wg.Go(func() { results[i] = c.enter(id, right) })
	}
	wg.Wait()
	n := 0
	for _, r := range results {
		if r == CodeRight {
			n++
		}
	}
	if n != 1 {
		t.Errorf("a code was right %d times", n)
	}
}

func TestCodesAreLimitedAndSealed(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	id := create(t, c.Accounts, c.DB, demo).ID
	sent := 0
	for range 3 { // hours
		for i := range 6 {
			switch err := c.sendCode(id, []string{"+33639980002", "+33639980003"}[i%2]); {
			case err == nil:
				sent++
			case !errors.Is(err, ErrTooMany):
				t.Fatal(err)
			}
		}
		c.clock.Advance(time.Hour)
	}
	if sent != codesPerDay {
		t.Errorf("%d codes in a day", sent)
	}
	rows, err := c.DB.Pool().Query(t.Context(), `SELECT phone_sealed || code_sealed FROM client_phone_codes UNION ALL SELECT convert_to(args::text, 'UTF8') FROM river.river_job`)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; rows.Next(); n++ {
		var raw []byte
		if err := rows.Scan(&raw); err != nil || bytes.Contains(raw, []byte("39980002")) {
			t.Errorf("row %d tells the number: %v", n, err)
		}
	}
}

func TestNumbersThatCannotTakeACodeAreRefused(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	id := create(t, c.Accounts, c.DB, demo).ID
	for phone, want := range map[string]error{
		"": ErrInvalid, "call me": ErrInvalid, "112": ErrInvalid, "+33899123456": ErrInvalid,
		"+881631234567": ErrInvalid, "+882134567890": ErrInvalid, "+878101234567890": ErrInvalid,
		"+447012345678": ErrInvalid, "+80012345678": ErrInvalid, "+447700900123": ErrCountry,
		"+1 415 555 0132": ErrCountry, "+262692123456": nil, "+32470123456": nil, "01 42 68 53 00": ErrNoMobile,
		"+33 800 123 456": ErrNoMobile,
	} {
		if err := c.sendCode(id, phone); !errors.Is(err, want) {
			t.Errorf("%q: %v", phone, err)
		}
	}
	for _, phone := range []string{"0639980002", "+447700900123", "+1 415 555 0132"} {
		if _, err := mobile(phone, []string{"FR", "GB", "US"}); err != nil {
			t.Errorf("%q: %v", phone, err)
		}
	}
	if err := c.sendCode("cli_test_unknown", "0639980002"); err == nil {
		t.Error("a code for nobody")
	}
}

// Codes from many accounts to one number annoy its owner; codes to many numbers cost us money.
func TestCodesADayAreLimitedByNumberAndInAll(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	c.deps.Numbers.PerDay = 12
	send := func(client int, phone string) error {
		id := create(t, c.Accounts, c.DB, NewClient{Email: fmt.Sprintf("c%d@example.com", client),
			Password: demo.Password, Name: "C"}).ID
		return c.sendCode(id, phone)
	}
	results := make(chan error, 9)
	for i := range cap(results) {
		go func() { results <- send(i, "06 39 98 00 02") }()
	}
	sent := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			sent++
		case !errors.Is(err, ErrTooMany):
			t.Fatal(err)
		}
	}
	if sent != codesToNumber {
		t.Errorf("%d codes to one number in a day, want %d", sent, codesToNumber)
	}
	for i := range 12 - codesToNumber {
		if err := send(100+i, fmt.Sprintf("06399810%02d", i)); err != nil {
			t.Fatalf("code %d of the day: %v", codesToNumber+i+1, err)
		}
	}
	if err := send(200, "0639982000"); !errors.Is(err, ErrTooMany) {
		t.Errorf("beyond the bound of the day: %v", err)
	}
	c.clock.Advance(24 * time.Hour)
	if err := send(201, "0639980002"); err != nil {
		t.Errorf("the day after: %v", err)
	}
}

// Codes that are not sent do not use up the daily limits, and each client keeps its own limit.
func TestCodesThatAreNotSentUseUpNobodysShare(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	c.deps.Numbers.PerDay = 2
	tests := map[string]bool{}
	c.deps.Kept = func(_ context.Context, _ postgres.Tx, clientID string) (bool, error) { return tests[clientID], nil }
	client := func(n int, test bool) string {
		id := create(t, c.Accounts, c.DB, NewClient{Email: fmt.Sprintf("c%d@example.com", n),
			Password: demo.Password, Name: "C"}).ID
		tests[id] = test
		return id
	}
	test := ""
	for i := range 3 * codesToNumber {
		test = client(i, true)
		if err := c.sendCode(test, "0639980002"); err != nil {
			t.Fatalf("code %d to a test client: %v", i+1, err)
		}
	}
	for range codesPerHour - 1 {
		if err := c.sendCode(test, "0639980002"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.sendCode(test, "0639980002"); !errors.Is(err, ErrTooMany) {
		t.Errorf("more codes of one test client: %v", err)
	}
	for i := range 2 {
		if err := c.sendCode(client(100+i, false), "0639980002"); err != nil {
			t.Errorf("code %d that is sent: %v", i+1, err)
		}
	}
	if err := c.sendCode(client(102, false), "0639980003"); !errors.Is(err, ErrTooMany) {
		t.Errorf("beyond the bound of the day: %v", err)
	}
}

// Each client's code opens with that client's key only, however many clients have one.
func TestCodesOfSeveralClientsKeepApart(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	numbers := []string{"+33639980021", "+33639980022", "+33639980023"}
	var ids []string
	for i, number := range numbers {
		ids = append(ids, create(t, c.Accounts, c.DB, NewClient{Email: fmt.Sprintf("k%d@example.com", i),
			Password: demo.Password, Name: "K"}).ID)
		if err := c.sendCode(ids[i], number); err != nil {
			t.Fatal(err)
		}
		c.code(i + 1)
	}
	for i, id := range ids {
		if masked, ok, err := c.PendingPhone(t.Context(), c.DB.Read(), id); err != nil || !ok ||
			masked != MaskPhone(numbers[i]) {
			t.Errorf("client %d: %q %v %v", i, masked, ok, err)
		}
		if r := c.enter(id, c.code(i+1)); r != CodeRight || c.phone(id) != numbers[i] {
			t.Errorf("client %d: %s, %s", i, r, c.phone(id))
		}
	}
}

func TestAnotherNumberNeedsThePresentPassword(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, NewClient{Email: "a@example.com", Password: demo.Password, Name: "A"})
	send := func(phone, current string) error {
		return c.tx(func(tx postgres.Tx) error { return c.SendCode(t.Context(), tx, client.ID, phone, current, "fr") })
	}
	if err := send("06 39 98 00 02", ""); err != nil {
		t.Fatalf("the first number: %v", err)
	}
	if got := c.enter(client.ID, c.code(1)); got != CodeRight {
		t.Fatalf("the code is %s", got)
	}
	if err := send("06 39 98 00 03", "wrong"); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("another number without the password: %v", err)
	}
	if err := send("06 39 98 00 03", demo.Password); err != nil {
		t.Errorf("with it: %v", err)
	}
}

// A number that an intruder verifies during the recovery does not stay.
func TestARecoveryEndsANumberThatIsBeingVerified(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"recovery", "code"} {
		c := newFixture(t).work()
		client := create(t, c.Accounts, c.DB, NewClient{Email: "a@example.com", Password: demo.Password, Name: "A"})
		if err := c.sendCode(client.ID, "06 39 98 00 02"); err != nil {
			t.Fatal(err)
		}
		code := c.code(1)
		c.askReset(client.Email)
		token := tokenOf(t, c.letter(client.Email, "Choose a new"))
		result := CodeOver
		enter := func(tx postgres.Tx) (err error) {
			result, err = c.EnterCode(t.Context(), tx, client.ID, code, "fr")
			return err
		}
		recovery := func(tx postgres.Tx) error {
			_, err := c.SelfService.Reset(t.Context(), tx, token, newPassword, "en", Recovery{})
			return err
		}
		var err error
		if first == "recovery" {
			err = c.behind(recovery, func() error { return c.tx(enter) })
		} else {
			err = c.behind(enter, func() error { return c.tx(recovery) })
		}
		if phone := c.phone(client.ID); err != nil || phone != "" || (result == CodeRight) != (first == "code") {
			t.Errorf("%s first: the code is %s, the number %q, %v", first, result, phone, err)
		}
	}
}
