"""Linking clients, and calls on behalf of a linked client."""

import base64
import hashlib
import secrets
import time
import urllib.parse
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass

import httpx

from partner import AuthenticatedClient, Client, models
from partner.api.o_auth import issue_token, revoke_token
from partner.types import UNSET

from .http import RetryTransport
from .tokens import Tokens, TokenStore

EARLY = 30.0
"""Seconds before its expiry at which a token is refreshed, so that it does not expire during a request."""


class LinkAgainError(Exception):
    """The client must link again: there are no tokens, or a refresh was rejected and the tokens were deleted."""

    def __init__(self, link: str, reason: str) -> None:
        super().__init__(f"{link} must link again: {reason}")
        self.link = link


class LinkRefusedError(Exception):
    """The client declined, or the callback does not belong to this link.

    `code` is `access_denied` if the client declined, another `error` value of the authorize page, `invalid_state` or `invalid_issuer`.
    """

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code


class TokenEndpointError(Exception):
    """The token endpoint returned an error that linking again does not fix: wrong credentials, a suspended application, too many requests."""

    def __init__(self, status: int, code: str, description: str) -> None:
        super().__init__(f"{status} {code}: {description}")
        self.status, self.code = status, code


@dataclass(frozen=True)
class PendingLink:
    """What to store in the visitor's session between `begin_link` and `finish_link`."""

    state: str
    code_verifier: str


class PartnerApp:
    """Your application and its linked clients. You choose the name of each link, for example the ID of your own record."""

    def __init__(
        self,
        *,
        base_url: str,
        client_id: str,
        client_secret: str,
        redirect_uri: str,
        store: TokenStore,
        issuer: str | None = None,
        transport: Callable[[], httpx.BaseTransport] = httpx.HTTPTransport,
        pause: float = 0.5,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`issuer` is the value of `iss` and the base URL of the authorize page, if it differs from `base_url`. `pause` is in seconds, see RetryTransport."""
        self._base_url, self._issuer = base_url.rstrip("/"), (issuer or base_url).rstrip("/")
        self._id, self._secret, self._redirect_uri = client_id, client_secret, redirect_uri
        self._store, self._transport, self._pause, self._now = store, transport, pause, now
        # All attempts of an exchange end within the 60 seconds for which the service stores its response.
        retries = RetryTransport(transport(), tries=4, pause=pause, longest=5)
        self._anonymous = Client(base_url=self._base_url, timeout=httpx.Timeout(5), httpx_args={"transport": retries})

    def begin_link(self, scope: str) -> tuple[str, PendingLink]:
        """Starts a link. Send the client's browser to the URL, and store the rest in this visitor's session."""
        pending = PendingLink(secrets.token_urlsafe(16), secrets.token_urlsafe(32))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(pending.code_verifier.encode()).digest()).rstrip(b"=").decode()
        query = urllib.parse.urlencode({
            "response_type": "code", "client_id": self._id, "redirect_uri": self._redirect_uri, "scope": scope, "state": pending.state,
            "code_challenge": challenge, "code_challenge_method": "S256",
        })
        return f"{self._issuer}/api/oauth/authorize?{query}", pending

    def finish_link(self, link: str, callback: str, pending: PendingLink) -> Tokens:
        """Completes a link with the URL that the client was redirected to, and stores the tokens. `scope` has the granted scopes."""
        back = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query))
        if back.get("state") != pending.state:
            raise LinkRefusedError("invalid_state", "the callback does not belong to this visitor")
        if back.get("iss") != self._issuer:
            raise LinkRefusedError("invalid_issuer", "the callback comes from another issuer")
        code = back.get("code")
        if code is None:
            raise LinkRefusedError(back.get("error", "invalid_request"), back.get("error_description", "the callback has no code"))
        tokens = self._exchange(code, models.TokenRequest(
            grant_type=models.TokenRequestGrantType.AUTHORIZATION_CODE, code=code, code_verifier=pending.code_verifier,
            redirect_uri=self._redirect_uri, client_id=self._id, client_secret=self._secret))
        self._store.update(link, lambda _: tokens)
        return tokens

    def unlink(self, link: str) -> None:
        """Ends a link at the service, and deletes its tokens."""

        def end(tokens: Tokens | None) -> None:
            if tokens:
                answer = revoke_token.sync_detailed(client=self._anonymous, body=models.RevokeRequest(
                    token=tokens.refresh_token or tokens.access_token, client_id=self._id, client_secret=self._secret))
                if answer.status_code != 200:
                    raise _refused(answer.status_code, answer.parsed)

        self._store.update(link, end)

    def client(self, link: str) -> AuthenticatedClient:
        """Returns the generated client for one link. It retries like RetryTransport, and raises LinkAgainError."""
        transport = RetryTransport(self._transport(), pause=self._pause)
        # The authentication sets the token of each request.
        return AuthenticatedClient(base_url=self._base_url, token="", timeout=httpx.Timeout(30), httpx_args={"auth": _Link(self, link), "transport": transport})

    def tokens(self, link: str, refused_token: str | None = None) -> Tokens:
        """Returns valid tokens other than the rejected one, or raises LinkAgainError."""
        tokens = self._store.read(link)
        if tokens is None:
            raise LinkAgainError(link, "there are no tokens")
        return tokens if self._good(tokens, refused_token) else self._renew(link, refused_token)

    def _good(self, tokens: Tokens, refused_token: str | None) -> bool:
        return tokens.access_token != refused_token and tokens.expires_at - self._now() > (EARLY if tokens.refresh_token else 0)

    def _renew(self, link: str, refused_token: str | None) -> Tokens:
        reason = "there are no tokens"

        def renew(tokens: Tokens | None) -> Tokens | None:
            nonlocal reason
            if tokens is None or self._good(tokens, refused_token):
                return tokens  # already refreshed elsewhere
            if tokens.refresh_token is None:
                reason = "the access token has expired, and offline_access was not granted"
                return None
            try:
                return self._exchange(tokens.refresh_token, models.TokenRequest(
                    grant_type=models.TokenRequestGrantType.REFRESH_TOKEN, refresh_token=tokens.refresh_token,
                    client_id=self._id, client_secret=self._secret))
            except TokenEndpointError as refusal:
                if refusal.code != "invalid_grant":
                    raise
                reason = str(refusal)
                return None

        renewed = self._store.update(link, renew)
        if renewed is None:
            raise LinkAgainError(link, reason)
        return renewed

    def _exchange(self, spent: str, grant: models.TokenRequest) -> Tokens:
        """Exchanges a code or a refresh token, which are single-use.

        The key is derived from it. A retry within 60 seconds, after a lost response or a crash before the tokens were stored, gets the
        same response, and nothing is spent twice.
        """
        began = self._now()
        key = hashlib.sha256(spent.encode()).hexdigest()
        answer = issue_token.sync_detailed(client=self._anonymous, idempotency_key=key, body=grant)
        if not isinstance(answer.parsed, models.TokenResponse):
            raise _refused(answer.status_code, answer.parsed)
        got = answer.parsed
        return Tokens(got.access_token, began + got.expires_in, got.scope, None if got.refresh_token is UNSET else str(got.refresh_token))


class _Link(httpx.Auth):
    """Adds the access token of a link to each request, and resends the request once after a 401, which means that it had no effect."""

    def __init__(self, app: PartnerApp, link: str) -> None:
        self._app, self._link = app, link

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        tokens = self._app.tokens(self._link)
        request.headers["Authorization"] = f"Bearer {tokens.access_token}"
        response = yield request
        if response.status_code == 401:
            tokens = self._app.tokens(self._link, tokens.access_token)
            request.headers["Authorization"] = f"Bearer {tokens.access_token}"
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        raise RuntimeError("this client supports threads only: use sync and sync_detailed")
        yield request


def _refused(status: int, error: object) -> TokenEndpointError:
    code = getattr(error, "error", "unknown")
    return TokenEndpointError(int(status), str(getattr(code, "value", code)), str(getattr(error, "error_description", "the response has no description")))
