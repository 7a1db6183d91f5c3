"""Tokens and their storage."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Tokens:
    """The tokens of one linked client."""

    access_token: str
    expires_at: float
    """Seconds since 1970."""
    scope: str
    """The granted scopes, which can be fewer than requested."""
    refresh_token: str | None = None
    """None if offline_access was not granted."""


class TokenStore(Protocol):
    """Stores tokens. They are secrets: encrypt them at rest."""

    def read(self, link: str) -> Tokens | None: ...

    def update(self, link: str, change: Callable[[Tokens | None], Tokens | None]) -> Tokens | None:
        """Calls `change` with the current tokens of a link, stores its result and returns it; None deletes the tokens.

        If `change` raises, nothing changes. For one link, only one `change` runs at a time across all your threads and processes: in a
        database, use a transaction with SELECT … FOR UPDATE.
        """
        ...


class MemoryTokenStore:
    """Stores tokens in memory: for tests, and as an example."""

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
