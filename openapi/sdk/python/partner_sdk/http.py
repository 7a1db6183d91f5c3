"""Requests that are sent again."""

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
    """A key for one thing that a user asks for. Keep it with what is about to be sent, and send it again after a crash of your own."""
    return str(uuid.uuid4())


class RetryTransport(httpx.BaseTransport):
    """Sends again, after a pause, what was answered by 429 or 503 or whose answer was lost.

    It does so with what can be repeated and with nothing else: reading, cancelling, revoking, and whatever carries an Idempotency-Key. A POST
    that takes a key and has none is given one, the same for all its tries.
    """

    def __init__(self, base: httpx.BaseTransport | None = None, tries: int = 4, pause: float = 0.5, longest: float = 20.0) -> None:
        """Tries at most `tries` times. `pause` are the seconds before the second try; twice as many before each further one, less up to half by chance.

        A Retry-After beyond `longest` seconds is not waited for: the answer is returned.
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
                response.read()  # a connection lost halfway is a lost answer too
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
    """The seconds that the answer asks to wait for, which it says as such or as a date; 0 when it says nothing."""
    said = response.headers.get("Retry-After", "")
    if said.isdecimal():
        return float(said)
    try:
        return max((email.utils.parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds(), 0)
    except (TypeError, ValueError):
        return 0
