"""Tokens and where they are kept."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Tokens:
    """The tokens of one client who linked."""

    access_token: str
    expires_at: float
    """Seconds since 1970."""
    scope: str
    """What the client granted, which may be less than what was asked."""
    refresh_token: str | None = None
    """None when offline_access was not granted."""


class TokenStore(Protocol):
    """Keeps tokens, which are secrets: encrypt them where you keep them."""

    def read(self, link: str) -> Tokens | None: ...

    def update(self, link: str, change: Callable[[Tokens | None], Tokens | None]) -> Tokens | None:
        """Runs `change` with the tokens of a link as they are now, and keeps what it returns before it returns that; None forgets them.

        When `change` raises, nothing changes. For one link only one `change` runs at a time, over all your threads and processes: in a
        database that is a transaction with SELECT … FOR UPDATE.
        """
        ...


class MemoryTokenStore:
    """Keeps tokens as long as the process runs: for tests, and as an example."""

    def __init__(self) -> None:
        self._tokens: dict[str, Tokens] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def read(self, link: str) -> Tokens | None:
        return self._tokens.get(link)

    def update(self, link: str, change: Callable[[Tokens | None], Tokens | None]) -> Tokens | None:
        with self._locks[link]:
            tokens = change(self._tokens.get(link))
            if tokens is None:
                self._tokens.pop(link, None)
            else:
                self._tokens[link] = tokens
            return tokens
