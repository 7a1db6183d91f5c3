package deployment

import "testing"

// TestSettle checks which base URL a program gets and which one the database stores.
func TestSettle(t *testing.T) {
	t.Parallel()
	const (
		desk, other = "http://localhost:8080", "http://127.0.0.1:9"
		public, new = "https://api.example", "https://new.example"
	)
	sandbox := func(baseURL string) Known { return Known{Environment: Sandbox, BaseURL: baseURL, Recorded: true} }
	live := func(baseURL string) Known { return Known{Environment: Live, BaseURL: baseURL, Recorded: true} }
	for name, c := range map[string]struct {
		known     Known
		claim     Claim
		use, keep string // empty: rejected
	}{
		"a new sandbox":              {Known{}, Claim{Environment: Sandbox, Serve: true}, desk, desk},
		"a command before the first": {Known{}, Claim{Environment: Sandbox}, desk, ""},
		"a new public sandbox":       {Known{}, Claim{Environment: Sandbox, BaseURL: public}, public, public},
		"a new live deployment":      {Known{}, Claim{Environment: Live, BaseURL: public}, public, public},
		"live without an address":    {Known{}, Claim{Environment: Live, Serve: true}, "", ""},
		"the server of a desk":       {sandbox(other), Claim{Environment: Sandbox, Serve: true}, desk, desk},
		"a worker at a desk":         {sandbox(other), Claim{Environment: Sandbox}, other, other},
		"a desk with another port": {sandbox(desk), Claim{Environment: Sandbox, BaseURL: other, Serve: true},
			other, other},
		"a command with another port": {sandbox(desk), Claim{Environment: Sandbox, BaseURL: other}, other, desk},
		"a desk that becomes public": {sandbox(desk), Claim{Environment: Sandbox, BaseURL: public, Serve: true},
			"", ""},
		"a public sandbox": {sandbox(public), Claim{Environment: Sandbox, Serve: true}, public, public},
		"a public sandbox on a desk": {sandbox(public), Claim{Environment: Sandbox, BaseURL: desk, Serve: true},
			"", ""},
		"a worker of live": {live(public), Claim{Environment: Live}, public, public},
		"a server of live": {live(public), Claim{Environment: Live, Serve: true}, public, public},
		"the same again": {live(public), Claim{Environment: Live, BaseURL: public, Serve: true},
			public, public},
		"another address":              {live(public), Claim{Environment: Live, BaseURL: new, Serve: true}, "", ""},
		"another port of live":         {live(desk), Claim{Environment: Live, BaseURL: other, Serve: true}, "", ""},
		"a command at another address": {live(public), Claim{Environment: Live, BaseURL: new}, "", ""},
		"live before it was recorded": {Known{Environment: Live}, Claim{Environment: Live, BaseURL: public},
			public, public},
		"a move":                        {live(public), Claim{Environment: Live, BaseURL: new, Move: true}, new, new},
		"a move to nowhere":             {live(public), Claim{Environment: Live, Move: true}, "", ""},
		"a move to another environment": {live(public), Claim{Environment: Sandbox, BaseURL: new, Move: true}, "", ""},
		"a sandbox on live":             {live(public), Claim{Environment: Sandbox, Serve: true}, "", ""},
		"live on a sandbox":             {sandbox(public), Claim{Environment: Live, BaseURL: public}, "", ""},
		"a sandbox on things of live":   {Known{Environment: Live}, Claim{Environment: Sandbox}, "", ""},
		"live on things of a sandbox": {Known{Environment: Sandbox}, Claim{Environment: Live, BaseURL: public},
			"", ""},
		"a sandbox on things of both": {Known{Mixed: true}, Claim{Environment: Sandbox}, "", ""},
		"live on things of both":      {Known{Mixed: true}, Claim{Environment: Live, BaseURL: public}, "", ""},
		"live that was looked at before": {Known{Mixed: true}, Claim{Environment: Live, BaseURL: public, Move: true},
			public, public},
	} {
		c.claim.Local = desk
		use, keep, err := settle(c.known, c.claim)
		if use != c.use || keep != c.keep || (err == nil) != (c.use != "") {
			t.Errorf("%s: uses %q and keeps %q, %v", name, use, keep, err)
		}
	}
}
