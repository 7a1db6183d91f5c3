"""Retries of requests."""

import email.utils
import random
import re
import time
import uuid
from datetime import UTC, datetime

import httpx

_TAKES_KEY = re.compile(r"/api/v1/(consultations|wallet/topup-session)")
_HARMLESS_TWICE = re.compile(r"/api/(v1/consultations/[^/]+/cancel|oauth/revoke)")


def new_idempotency_key() -> str:
    """Returns a key for one action of a user. Store it with the request before you send it, and reuse it after a crash of your program."""
    return str(uuid.uuid4())


class RetryTransport(httpx.BaseTransport):
    """Retries requests after 429, 503 or a lost response, with a pause.

    It retries only requests that are safe to repeat: reading, cancelling, revoking, and requests with an Idempotency-Key. A POST that
    accepts a key and has none gets one, the same for all its attempts.
    """

    def __init__(self, base: httpx.BaseTransport | None = None, tries: int = 4, pause: float = 0.5, longest: float = 20.0) -> None:
        """Makes at most `tries` attempts. `pause` is the number of seconds before the second attempt. It doubles for each further attempt; jitter removes up to half.

        If Retry-After exceeds `longest` seconds, the response is returned without waiting.
        """
        self._base = base or httpx.HTTPTransport()
        self._tries, self._pause, self._longest = tries, pause, longest

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "POST" and _TAKES_KEY.fullmatch(path):
            request.headers.setdefault("Idempotency-Key", new_idempotency_key())
        repeatable = request.method in ("GET", "HEAD") or "Idempotency-Key" in request.headers or bool(_HARMLESS_TWICE.fullmatch(path))
        request.read()
        turn = 1
        while True:
            last = not repeatable or turn == self._tries
            pause: float = self._pause * 2 ** (turn - 1) * random.uniform(0.5, 1)
            try:
                response = self._base.handle_request(request)
                response.read()  # a connection lost halfway is also a lost response
                if last or response.status_code not in (429, 503):
                    return response
                pause += _retry_after(response)
                if pause > self._longest:
                    return response
            except httpx.TransportError:
                if last:
                    raise
            time.sleep(min(pause, self._longest))
            turn += 1

    def close(self) -> None:
        self._base.close()


def _retry_after(response: httpx.Response) -> float:
    """Returns the seconds of Retry-After, which is a number or a date; 0 if it is absent."""
    said = response.headers.get("Retry-After", "")
    if said.isdecimal():
        return float(said)
    try:
        return max((email.utils.parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds(), 0)
    except (TypeError, ValueError):
        return 0
