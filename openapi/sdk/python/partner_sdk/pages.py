"""Lists that come a page at a time."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Page(Protocol[T]):
    """A page as the generated client reads it."""

    @property
    def items(self) -> list[T]: ...

    @property
    def next_cursor(self) -> str | None: ...


def each(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Reads a list to its end, newest first. `read` reads the page of a cursor, the first one with None; filters stay the same on every page."""
    cursor: str | None = None
    while True:
        page = read(cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
