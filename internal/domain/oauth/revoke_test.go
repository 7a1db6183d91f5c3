package oauth

import (
	"net/url"
	"testing"
)

func (w *world) revokeForm(token string, changes ...string) url.Values {
	f := url.Values{"token": {token}, "client_id": {w.app.ID}, "client_secret": {w.secret}}
	change(f, changes)
	return f
}

// RFC 7009, trap T17.
func TestRevokingEitherTokenEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bystander := w.link(t)
	for name, form := range map[string]func(TokenResponse) url.Values{
		"refresh token": func(r TokenResponse) url.Values { return w.revokeForm(r.RefreshToken) },
		"refresh token without secret": func(r TokenResponse) url.Values {
			return w.revokeForm(r.RefreshToken, "client_secret", "-")
		},
		"access token": func(r TokenResponse) url.Values {
			return w.revokeForm(r.AccessToken, "token_type_hint", "refresh_token", "unknown", "ignored")
		},
	} {
		got := w.link(t)
		for range 2 { // a second time has no effect and is no error
			if err := w.svc.Revoke(t.Context(), form(got)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if w.alive(t, got.AccessToken) {
			t.Errorf("%s: the access token is accepted", name)
		}
		w.refused(t, name, w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant)
	}
	if !w.alive(t, bystander.AccessToken) {
		t.Error("another session ended")
	}
}

func TestAnExpiredAccessTokenEndsItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remembered, got := w.link(t), w.link(t)
	if !w.alive(t, remembered.AccessToken) {
		t.Fatal("refused")
	}
	w.clk.Advance(AccessTokenLifetime)
	for _, token := range []TokenResponse{remembered, got} {
		if err := w.svc.Revoke(t.Context(), w.revokeForm(token.AccessToken, "client_id", w.other.ID,
			"client_secret", w.otherSecret)); err != nil {
			t.Error(err)
		}
		token = w.token(t, w.refreshForm(token.RefreshToken)) // the other application's attempt had no effect
		w.clk.Advance(AccessTokenLifetime)
		if err := w.svc.Revoke(t.Context(), w.revokeForm(token.AccessToken)); err != nil {
			t.Error(err)
		}
		w.refused(t, "after revocation", w.refreshForm(token.RefreshToken), 400, CodeInvalidGrant)
	}
}

func TestRevocationThatMayNotHappenChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	for name, form := range map[string]url.Values{
		"unknown token": w.revokeForm("rt_test_unknown"),
		"garbage":       w.revokeForm("a.b.c"),
		"another application's refresh": w.revokeForm(got.RefreshToken, "client_id", w.other.ID,
			"client_secret", w.otherSecret),
		"another application's access": w.revokeForm(got.AccessToken, "client_id", w.other.ID,
			"client_secret", "-"),
		"access token with a cut signature": w.revokeForm(got.AccessToken[:len(got.AccessToken)-2]),
	} {
		if err := w.svc.Revoke(t.Context(), form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		form   url.Values
		status int
		code   string
	}{
		{w.revokeForm(got.RefreshToken, "client_secret", "wrong"), 401, CodeInvalidClient},
		{w.revokeForm(got.RefreshToken, "client_secret", w.otherSecret), 401, CodeInvalidClient},
		{w.revokeForm(got.RefreshToken, "client_id", "app_test_unknown"), 401, CodeInvalidClient},
		{w.revokeForm(got.RefreshToken, "client_id", "app_test_unknown", "client_secret", "-"), 401, CodeInvalidClient},
		{w.revokeForm(got.RefreshToken, "client_id", "-"), 400, CodeInvalidRequest},
		{w.revokeForm("", "token", "-"), 400, CodeInvalidRequest},
	} {
		isRefusal(t, c.form.Encode(), w.svc.Revoke(t.Context(), c.form), c.status, c.code)
	}
	if !w.alive(t, got.AccessToken) {
		t.Error("the session ended")
	}
	w.token(t, w.refreshForm(got.RefreshToken))
}
